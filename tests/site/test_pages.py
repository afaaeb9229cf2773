"""Every page in a browser, opened once for all checks, and what any page lets a reader do."""

from pathlib import Path

import pytest
from browsing import NARROW, WIDE, opened, script
from faults import (
    layout_faults,
    look,
    shift_faults,
    unmarked_controls,
    violations,
    weight_faults,
)
from helpers import LESSONS, ROOT

from tools.book.book import Book

BOOK = Book(ROOT)
PAGES = sorted(f"{name}.html" for name in (*BOOK.documents, "search"))
CHAPTER = "notebooks/copying-between-devices.html"
# Chapters are drawn alike: one, the shortest of them, stands for all in the quick tier.
LONG = [f"notebooks/{name}.html" for name in BOOK.pages if name != "computing-devices"]
ALIKE = [f"notebooks/{name}.html" for name in LESSONS if name != "tensors-on-gpus"]
MOST_NODES = 6_500  # on a page when it is opened


def fold_faults(page):
    """Return the folds that a finger misses, and those whose parts are not printed."""
    low = page.evaluate(script("folds"))["low"]
    page.emulate_media(media="print")
    hidden = page.evaluate(script("folds"))["hidden"]
    page.emulate_media(media="screen")
    return low + hidden


def size_faults(page):
    nodes = page.locator("*").count()
    return [f"{nodes:,} nodes"] if nodes > MOST_NODES else []


OPEN_ALL = "document.querySelectorAll('.deeper, .covered').forEach(box => { box.open = true; })"


def keyboard_faults(page, chapter):
    """Return the choices that Tab does not reach, or Enter does not open."""
    page.evaluate(OPEN_ALL)
    faults = []
    count = sum(cell.source.count('class="choice') for cell in chapter.notebook.cells)
    shown = page.locator("details.choice").count()
    if count < 3 or shown != count:
        faults.append(f"{shown} choices, {count} in the notebook")

    waiting = set(range(count))
    for _ in range(page.locator("a, button, input, select, summary").count()):
        if not waiting:
            break
        page.keyboard.press("Tab")
        choice = page.evaluate(script("choice"))
        place = choice["place"]
        if place not in waiting:
            continue
        waiting.remove(place)
        if choice["isAnswered"]:
            faults.append(f"choice {place}: feedback seen before it is asked for")
        page.keyboard.press("Enter")
        if not page.evaluate(script("choice"))["isAnswered"]:
            faults.append(f"choice {place}: Enter does not show the feedback")
    for place in sorted(waiting):
        faults.append(f"choice {place}: not reached by Tab")
    return faults


CASES = []
for name in PAGES:
    marks = [pytest.mark.full] if name in LONG else []
    CASES.append(pytest.param(name, marks=marks))


@pytest.mark.parametrize("name", CASES)
def test_a_page_has_no_fault(browser, site, name):
    requests = []
    with opened(browser, site, name, requests) as (page, faults):
        found = {"load": faults}
        found["shift"] = shift_faults(page)
        found["weight"] = weight_faults(site, requests)
        found["wide"] = layout_faults(page) + size_faults(page)
        look(page, NARROW, "dark")
        found["narrow"] = layout_faults(page) + fold_faults(page)
        # What only a wide window has is the same on all pages.
        found["dark"] = violations(page)
        look(page, WIDE)
        found["light"] = violations(page, colours=name not in ALIKE)
        if name in ("search.html", "book/calculator.html"):
            found["focus"] = unmarked_controls(page)
        chapter = Path(name).stem
        if chapter in LESSONS:
            found["keyboard"] = keyboard_faults(page, BOOK.chapters[chapter])
    assert {check: faults for check, faults in found.items() if faults} == {}


# What a button opens, by the width of the window.
BUTTONS = {
    WIDE: {
        "[popovertarget]": "#downloads:popover-open",
        ".search-button-field": "dialog#pst-search-dialog",
    },
    NARROW: {
        ".primary-toggle": "dialog#pst-primary-sidebar-modal",
        ".secondary-toggle": "dialog#pst-secondary-sidebar-modal",
    },
}


@pytest.mark.parametrize("width", BUTTONS)
def test_what_buttons_open_has_no_fault(browser, site, width):
    with opened(browser, site, "book/status.html", width=width) as (page, faults):
        look(page, width, "dark")
        for control, opens in BUTTONS[width].items():
            page.click(control)
            page.wait_for_selector(opens)
            faults += violations(page) + layout_faults(page)
            page.keyboard.press("Escape")
        assert faults == []


def search_results(page, words):
    """Search for words by the keyboard alone, and return the links that are found."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/search.html?q={words}*")
    page.wait_for_function("/finished|did not match/.test(document.body.innerText)")
    page.wait_for_load_state("networkidle")
    results = page.locator("#search-results li a")
    return results.evaluate_all("all => all.map(a => a.href)")


def test_the_contents_mark_the_section_that_is_read(browser, site):
    with opened(browser, site, CHAPTER) as (page, faults):
        marked = page.locator(".page-toc a[aria-current]")
        for section in page.locator("article > section > section:has(h2)").all():
            anchor = section.get_attribute("id")
            link = page.locator(f".page-toc a[href='#{anchor}']").element_handle()
            section.evaluate("section => section.scrollIntoView()")
            page.wait_for_function("link => link.ariaCurrent", arg=link)
            assert marked.count() == 1
        assert faults == []


def test_any_page_leads_to_the_search_by_keyboard(browser, site):
    with opened(browser, site, "book/status.html") as (page, faults):
        links = search_results(page, "pinned")
        assert any(CHAPTER in link for link in links)
        assert search_results(page, "xylophone") == []
        assert faults == []


def test_the_index_leads_to_the_first_page(browser, site):
    with opened(browser, site, "search.html") as (page, faults):
        page.goto(page.url.replace("search", "index"))
        page.wait_for_url(f"**/{BOOK.documents[0]}.html", wait_until="networkidle")
        assert faults == []
