"""The site in a browser: nothing fails, no other host is asked, formulas can be seen."""

import pytest
from browsing import opened
from helpers import ROOT

from tools.source.book import Book


def unseen_formulas(page):
    """The formulas of the page that take no room on it, as TeX."""
    drawings = page.locator(".formula svg").all()
    boxes = [(drawing.get_attribute("aria-label"), drawing.bounding_box()) for drawing in drawings]
    return [tex for tex, box in boxes if not box or not box["width"] or not box["height"]]


def test_every_page_is_whole_and_asks_nobody_else(browser, site):
    width = 360  # test_accessibility.py opens every page wide, and light
    options = {"viewport": {"width": width, "height": 740}, "color_scheme": "dark"}
    found, formulas = {}, 0
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name == "index.html":  # only leads to another page
            continue
        with opened(browser, site, name, **options) as (page, faults):
            faults += [f"formula not seen: {tex}" for tex in unseen_formulas(page)]
            faults += ["formula not drawn"] * page.locator(".math").count()
            if page.evaluate("document.documentElement.scrollWidth") > width:
                faults.append("wider than the window")
            formulas += page.locator(".formula svg").count()
            found[name] = faults
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert formulas


def test_the_index_leads_to_the_first_page(browser, site):
    with opened(browser, site, "index.html") as (page, faults):
        page.wait_for_url(f"**/{Book(ROOT).documents[0]}.html", wait_until="networkidle")
        assert faults == []


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "asks another host"),
        ("<script>fetch('https://api.example.org/')</script>", "asks another host"),
        ('<img src="missing.png">', "answers 404"),
        ("<script>console.error('a fault')</script>", "console: a fault"),
        ("<script>undefined_function()</script>", "script:"),
    ],
)
def test_a_doctored_page_is_noticed(browser, tmp_path, addition, fault):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>Page</title>{addition}")
    with opened(browser, tmp_path, "page.html") as (_, faults):
        assert any(found.startswith(fault) for found in faults)


def test_a_formula_that_is_hidden_is_noticed(browser, tmp_path):
    formula = '<span class="formula"><svg role="img" aria-label="n" width="9" height="9"/></span>'
    (tmp_path / "seen.html").write_text(formula)
    (tmp_path / "hidden.html").write_text(f'<div style="display: none">{formula}</div>')
    with opened(browser, tmp_path, "seen.html") as (page, _):
        assert unseen_formulas(page) == []
    with opened(browser, tmp_path, "hidden.html") as (page, _):
        assert unseen_formulas(page) == ["n"]
