"""The decks: whole, on their own, covered until the step, one slide a page on paper."""

import re

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from browsing import script
from bs4 import BeautifulSoup
from helpers import ROOT

from tools.book.book import Book
from tools.book.exercises import exercises
from tools.book.length import length, reading_path
from tools.book.notebooks import tags
from tools.site.slides import write_decks

BOOK = Book(ROOT)
pytestmark = pytest.mark.full  # the decks of all chapters are drawn first


@pytest.fixture(scope="session")
def decks(once, site):
    return once("slides", lambda folder: write_decks(BOOK, site, folder))


def plain(text):
    return re.sub(r"\s", "", text)


def test_decks_ask_all_that_chapters_ask_before_they_answer_and_tell_no_solution(decks):
    index = BeautifulSoup((decks / "index.html").read_bytes(), "html.parser")
    assert [link["href"] for link in index("a")] == [
        f"{name}.html" for name in BOOK.pages
    ]
    for name, chapter in BOOK.pages.items():
        main = (decks / f"{name}.html").read_text(encoding="utf-8").split("<main>")[1]
        signs = ('<div class="prediction">', '<details class="covered"')
        asked, printed = (
            [it.start() for it in re.finditer(sign, main)] for sign in signs
        )
        assert len(asked) == length(chapter).predictions
        assert len(printed) == sum(
            "predicted" in tags(cell) for cell in reading_path(chapter)
        )
        for question, answer in zip(asked, printed, strict=True):
            assert '<section class="slide' in main[question:answer], name
        assert main.count("<summary>") >= 3 * length(chapter).checks
        text = plain(BeautifulSoup(main, "html.parser").text)
        for exercise in exercises(chapter):
            assert plain(f"{exercise.number}. ") in text
            told = [
                plain(block)
                for kind in ("solution", "wrong")
                for block in exercise.code(kind)
            ]
            assert not any(solution in text for solution in told), (
                name,
                exercise.number,
            )


def test_a_deck_is_stepped_through_read_and_printed_with_nothing_beside_it(
    browser, decks
):
    context = browser.new_context(viewport={"width": 1024, "height": 768})
    page, faults, path = context.new_page(), [], decks / "computing-devices.html"
    its_own = path.as_uri(), "data:"  # and no file that lies beside it, a font's say
    page.on("request", lambda it: it.url.startswith(its_own) or faults.append(it.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(".slide.current")
    other = context.new_page()  # a lecturer's own window follows
    other.goto(path.as_uri())
    assert page.evaluate(script("walk")) + faults == []
    slides = page.locator(".slide").count()
    other.wait_for_selector(".slide.current >> nth=0")
    other.wait_for_function(f"location.hash === '#{slides}'")
    shown = page.locator(
        ".runner-outputs:has(button + button) .runner-output.shown"
    ).first
    before = shown.get_attribute("data-runner")
    page.keyboard.press("r")
    assert shown.get_attribute("data-runner") != before
    more = page.locator(".more").first
    assert more.evaluate("(box) => getComputedStyle(box).display") == "none"
    page.keyboard.press("n")
    assert more.evaluate("(box) => getComputedStyle(box).display") == "inline"
    pages = page.pdf(prefer_css_page_size=True, print_background=True)
    assert pages.count(b"/Type /Page\n") == slides
    page.evaluate(
        "document.documentElement.classList.remove('deck')"
    )  # all slides in sight
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    for _ in ("light", "dark"):
        found = page.evaluate(
            "axe.run({ resultTypes: ['violations'], preload: false })"
        )
        assert [
            (rule["id"], rule["nodes"][0]["html"]) for rule in found["violations"]
        ] == []
        page.keyboard.press("t")
    context.close()
