"""Every page in a browser, opened once for all checks, and what any page lets a reader do."""

import base64
import os

import pytest
from browsing import (
    NARROW,
    WIDE,
    layout_faults,
    look,
    opened,
    shift_faults,
    unmarked,
    violations,
)
from helpers import LESSONS, ROOT

from tools.bench import page_limit
from tools.book.book import Book
from tools.browsing import weights

BOOK = Book(ROOT)
PAGES = sorted(f"{name}.html" for name in (*BOOK.documents, "search"))
CHAPTER, WORD = "notebooks/copying-between-devices.html", "pinned"
# Chapters are drawn alike: the colours of one, of the symptoms and the puzzles stand for all.
ALIKE = [f"notebooks/{name}.html" for name in LESSONS if name != "tensors-on-gpus"]


def weight_faults(site, asked, name):
    """Whether the files of `site` that a page asked for weigh too much, each compressed."""
    weight = sum(weights(site, asked).values())
    return [f"weighs {weight / 1024:.0f} KiB"] if weight >= page_limit(name) * 1024 else []


FOLDS = "details:is(.choice, .hint, .solution, .wrong)"
LOW = f"""() => [...document.querySelectorAll("{FOLDS} > summary")]
  .map(box => box.getBoundingClientRect().height).filter(height => height && height < 44)
  .map(height => `too low for a finger: ${{height}}`)"""
UNPRINTED = f"""() => [...document.querySelectorAll("{FOLDS} > :not(summary)")]
  .filter(part => !part.checkVisibility()).map(part => `not printed: ${{part.textContent}}`)"""


def fold_faults(page):
    """Choices and other folds too low for a finger, and what paper would hide in them."""
    low = page.evaluate(LOW)
    page.emulate_media(media="print")
    unprinted = page.evaluate(UNPRINTED)
    page.emulate_media(media="screen")
    return low + unprinted


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault(browser, site, name):
    asked = []
    with opened(browser, site, name, asked) as (page, faults):
        found = {
            "load": faults,
            "shift": shift_faults(page),
            "weight": weight_faults(site, asked, name),
            "wide": layout_faults(page),
        }
        look(page, NARROW)
        found["narrow"] = layout_faults(page) + fold_faults(page)
        look(page, WIDE)
        found["axe"] = violations(page, colours=name not in ALIKE)
    assert {check: faults for check, faults in found.items() if faults} == {}


@pytest.mark.full
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault_in_the_dark(browser, site, name, width):
    with opened(browser, site, name, width=width, color_scheme="dark") as (page, faults):
        look(page, width, "dark")
        assert layout_faults(page) + violations(page) + faults == []


BUTTONS = {  # what a button opens, by the width of the window
    WIDE: {
        ".dropdown-download-buttons > button": ".dropdown-menu.show",
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


@pytest.mark.parametrize("name", ["search", "book/calculator"])
def test_the_keyboard_shows_where_it_is(browser, site, name):
    with opened(browser, site, f"{name}.html") as (page, _):
        assert unmarked(page) == []


ACTIVE = """() => {
  const all = [...document.querySelectorAll("details.choice > summary")];
  const at = document.activeElement, place = all.indexOf(at);
  const seen = () => place >= 0 &&
    [...at.parentElement.querySelectorAll(":scope > p")].some(p => p.checkVisibility());
  return [at === document.body, place, seen()];
}"""


def keyboard_faults(page):
    """Tab through the page, press Enter on every choice: what is not reached or not opened."""
    waiting, faults = set(range(page.locator("details.choice").count())), []
    left = False
    while waiting and not left:
        page.keyboard.press("Tab")
        left, place, seen = page.evaluate(ACTIVE)
        if place not in waiting:
            continue
        waiting.remove(place)
        if seen:
            faults.append(f"choice {place}: feedback seen before it is asked for")
        page.keyboard.press("Enter")
        if not page.evaluate(ACTIVE)[2]:
            faults.append(f"choice {place}: Enter does not show the feedback")
    return faults + [f"choice {place}: not reached by Tab" for place in sorted(waiting)]


FIRST, *OTHERS = LESSONS


@pytest.mark.parametrize(
    "name", [FIRST, *(pytest.param(name, marks=pytest.mark.full) for name in OTHERS)]
)
def test_choices_open_by_keyboard_with_the_network_off(browser, site, name):
    with opened(browser, site, f"notebooks/{name}.html") as (page, faults):
        page.context.set_offline(True)
        assert page.locator("details.choice").count() >= 4 * 3
        assert keyboard_faults(page) == []
        pictures = ("fails: ", "console: Failed to load")  # they are fetched when they come near
        assert [fault for fault in faults if not fault.startswith(pictures)] == []


def test_any_page_leads_to_the_search_by_keyboard(browser, site):
    with opened(browser, site, "book/status.html") as (page, faults):
        for word, found in ((WORD, True), ("xylophone", False)):
            page.keyboard.press("Control+k")
            page.keyboard.type(word)
            page.keyboard.press("Enter")
            page.wait_for_url(f"**/search.html?q={word}*")
            page.wait_for_function("/finished|did not match/.test(document.body.innerText)")
            page.wait_for_load_state("networkidle")
            links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
            assert any(CHAPTER in link for link in links) == bool(links) == found
        assert faults == []


def test_the_index_leads_to_the_first_page(browser, site):
    with opened(browser, site, "search.html") as (page, faults):
        page.goto(page.url.replace("search", "index"))
        page.wait_for_url(f"**/{BOOK.documents[0]}.html", wait_until="networkidle")
        assert faults == []


# Each check notices its fault.

FONT = ROOT / "book" / "static" / "fonts" / "text-latin.woff2"
ICON = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><path d="M0 0h9v9"/></svg>'
SOUND = f"""<!doctype html><html lang="en"><head><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="icon.svg"><style>@font-face {{
  font-family: "Book Text";
  src: url(data:font/woff2;base64,{base64.b64encode(FONT.read_bytes()).decode()});
}}
.choice summary {{ line-height: 44px }}
@media print {{ .choice::details-content {{ content-visibility: visible }} }}
</style></head><body style="font-family: 'Book Text'"><main><h1>A page</h1><a href="#">Away</a>
<img src="icon.svg" alt="A square" width="20" height="10">
<span class="formula"><svg role="img" aria-label="n" width="9" height="9"/></span>
<details class="choice"><summary>A</summary><p>No.</p></details></main></body></html>"""
FAULTS = {  # what is added to the sound page, and what its check must find
    layout_faults: {
        '<p style="width: 2000px">Wide</p>': "page: 20",
        '<p style="width: 1em; overflow: hidden">Unbroken</p>': "cut off",
        '<p style="font-family: Arial">Other</p>': "Arial: <p",
        '<img src="icon.svg" alt="A" width="20" height="20">': "size 20 x 20",
        '<img src="icon.svg" alt="A" width="20" height="10" style="height: 40px">': "out of shape",
        '<span class="formula" hidden><svg/></span>': "takes no room",
        '<p class="math">n</p>': "not drawn",
    },
    violations: {
        '<p style="color: #aaa">Faint</p>': 'color-contrast: <p style="color: #aaa"',
        '<pre><span style="color: #aaa">faint</span></pre>': "color-contrast: <span",
        '<button aria-label="Do">Go</button>': "label-content",
        "</main><p>Outside</p>": "region",
    },
    shift_faults: {
        """<script>setTimeout(() => {
          document.querySelector("h1").style.marginTop = "400px" }, 200)</script>""": "moves by"
    },
    unmarked: {'<a href="#" style="outline: none">Away</a>': "unmarked: <a"},
    fold_faults: {
        '<details class="hint"><summary>A</summary><p>No.</p></details>': "too low",
        '<details class="solution"><summary>A</summary><p>No.</p></details>': "not printed",
    },
    keyboard_faults: {
        '<details class="choice"><summary tabindex="-1">A</summary></details>': "choice 1: not rea",
        '<details class="choice"><summary onclick="return false">A</summary><p>No.</p></details>': (
            "choice 2: Enter does not"
        ),
        '<details class="choice" open><summary>A</summary><p>No.</p></details>': "choice 3: feedba",
    },
    None: {
        '<script src="https://cdn.example.org/a.js"></script>': "asks another host: https://cdn",
        '<img src="missing.png">': "answers 404",
        "<script>console.error('a fault')</script>": "console: a fault",
        "<script>undefined_function()</script>": "script: undefined_function",
    },
}


@pytest.mark.parametrize("check", FAULTS, ids=lambda check: check.__name__ if check else "load")
def test_a_fault_of_a_page_is_noticed(browser, tmp_path, check):
    def found(added):
        page = SOUND.replace("</main>", "".join(added) + "</main>")
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        with opened(browser, tmp_path, "page.html") as (page, faults):
            return (check(page) if check else []) + faults

    (tmp_path / "icon.svg").write_text(ICON)
    assert found([]) == []
    # Axe's are found one by one: several of them have one name.
    for group in [[added] for added in FAULTS[check]] if check is violations else [FAULTS[check]]:
        faults = found(group)
        for added in group:
            assert any(fault.startswith(FAULTS[check][added]) for fault in faults), added


def test_a_heavy_page_is_noticed(tmp_path):
    limit = page_limit(CHAPTER)
    for size in (limit - 5, limit + 1):
        (tmp_path / "icon.svg").write_bytes(os.urandom(size * 1024))  # gzip makes it no smaller
        assert bool(weight_faults(tmp_path, ["http://x/icon.svg"], CHAPTER)) == (size > limit)
