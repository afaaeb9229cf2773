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


def test_there_is_a_deck_for_every_chapter(decks):
    index = BeautifulSoup((decks / "index.html").read_bytes(), "html.parser")
    links = [link["href"] for link in index("a")]
    assert links == [f"{name}.html" for name in BOOK.pages]


def main_of(decks, name):
    _, main = (decks / f"{name}.html").read_text(encoding="utf-8").split("<main>")
    return main


def places_of(sign, text):
    return [match.start() for match in re.finditer(sign, text)]


@pytest.mark.parametrize("name", BOOK.pages)
def test_a_deck_asks_before_it_answers(decks, name):
    chapter, main = BOOK.pages[name], main_of(decks, name)
    predicted = [cell for cell in reading_path(chapter) if "predicted" in tags(cell)]
    questions = places_of('<div class="prediction">', main)
    answers = places_of('<details class="covered"', main)
    assert len(questions) == length(chapter).predictions
    assert len(answers) == len(predicted)
    for question, answer in zip(questions, answers, strict=True):
        assert '<section class="slide' in main[question:answer]
    assert main.count("<summary>") >= 3 * length(chapter).checks


@pytest.mark.parametrize("name", BOOK.pages)
def test_a_deck_tells_no_solution(decks, name):
    text = plain(BeautifulSoup(main_of(decks, name), "html.parser").text)
    for exercise in exercises(BOOK.pages[name]):
        assert plain(f"{exercise.number}. ") in text
        for block in exercise.code("solution") + exercise.code("wrong"):
            assert plain(block) not in text, exercise.number


def test_a_deck_is_stepped_through_and_printed(browser, decks):
    context = browser.new_context(viewport={"width": 1024, "height": 768})
    page = context.new_page()
    path = decks / "computing-devices.html"
    faults = []
    # It asks for no file that lies next to it, such as a font.
    own = path.as_uri(), "data:"

    def note(request):
        if not request.url.startswith(own):
            faults.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(".slide.current")
    # A lecturer's own window follows.
    follower = context.new_page()
    follower.goto(path.as_uri())
    assert page.evaluate(script("walk")) + faults == []
    slides = page.locator(".slide").count()
    follower.wait_for_selector(".slide.current >> nth=0")
    follower.wait_for_function(f"location.hash === '#{slides}'")

    with_tabs = ".runner-outputs:has(button + button)"
    shown = page.locator(f"{with_tabs} .runner-output.shown").first
    before = shown.get_attribute("data-runner")
    page.keyboard.press("r")
    assert shown.get_attribute("data-runner") != before
    more = page.locator(".more").first
    assert more.evaluate("(box) => getComputedStyle(box).display") == "none"
    page.keyboard.press("n")
    assert more.evaluate("(box) => getComputedStyle(box).display") == "inline"
    pages = page.pdf(prefer_css_page_size=True, print_background=True)
    assert pages.count(b"/Type /Page\n") == slides

    # All slides come into sight.
    page.evaluate("document.documentElement.classList.remove('deck')")
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    for _ in ("light", "dark"):
        run = "axe.run({ resultTypes: ['violations'], preload: false })"
        for rule in page.evaluate(run)["violations"]:
            faults.append((rule["id"], rule["nodes"][0]["html"]))
        page.keyboard.press("t")
    assert faults == []
    context.close()
