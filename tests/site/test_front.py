"""The front page: its picture is true, and is read by hand, by keyboard, on paper."""

import re

import pytest
from browsing import opened
from bs4 import BeautifulSoup
from helpers import ROOT

from tools.book.book import Book
from tools.site.front import GPUS, RUNNER, read_picture
from tools.site.timeline import MIME, timeline_html

BOOK = Book(ROOT)
PICTURE = read_picture(ROOT)
PAGE = f"{BOOK.documents[0]}.html"
STEP = ".front-step"


def untrue(page):
    """What the picture shows that its cells did not print, by the title of the step."""
    found, shown = [], page.select(STEP)
    there = ""  # all that was printed up to here
    for step, box in zip(PICTURE, shown, strict=True):
        cell = BOOK.recording(RUNNER, step.chapter).cells[step.cell]
        data = [output.get("data", {}) for output in cell.outputs]
        if step.way == "timeline":
            (payload,) = [forms[MIME] for forms in data if MIME in forms]
            drawn = BeautifulSoup(timeline_html(payload), "html.parser")
            if squeezed(drawn.get_text()) not in squeezed(box.get_text()):
                found.append(step.title)
            continue
        printed = "".join(
            output.get("text") or forms.get("text/plain", "")
            for output, forms in zip(cell.outputs, data, strict=True)
        ).strip()
        there += printed
        places = {  # the numbers of each grid of numbers, by its GPU
            (i, "".join(number.get_text() for number in grid.select("i")))
            for i in range(GPUS)
            for grid in box.select(f".gpu{i} .front-grid")
        }
        true = {
            (int(gpu), re.sub(r"[\[\], ]", "", rows))
            for rows, gpu in re.findall(r"tensor\((\[.*?\]\])[^\]]*?'cuda:(\d)'", squeezed(there))
        }
        if box.select_one("pre").get_text().strip() != cell.source:
            found.append(f"{step.title}: another code")
        if box.select_one("pre.front-out").get_text() != printed:
            found.append(f"{step.title}: another output")
        if places != true:
            found.append(f"{step.title}: {places} for {true}")
    return found


def squeezed(text):
    return re.sub(r"\s+", "", text)


def test_every_step_shows_what_its_cell_printed_and_tells_screen_readers(site):
    page = BeautifulSoup((site / PAGE).read_text(encoding="utf-8"), "html.parser")
    assert untrue(page) == []
    told = [box["aria-label"] for box in page.select(".front-gpus")]
    assert told[0] == "GPU 0 holds X. GPU 1 holds Y."
    assert told[1].endswith("Their sum is refused.") and "Z is a copy of X." in told[2]
    page.select(".front-grid i")[-1].string = "7."
    assert untrue(page) != []


def test_it_says_that_no_real_gpu_has_run_the_book_as_long_as_none_has():
    said = "No real GPU has run this book yet" in (ROOT / "book" / "preface.md").read_text("utf-8")
    cards = [name for name in BOOK.recordings if name not in BOOK.runners]
    answers = [*(ROOT / "cudasim" / "fidelity").glob("answers/*.json")]
    assert said == (not cards and not answers)


def shown(page):
    steps = page.locator(STEP).all()
    return [i for i, step in enumerate(steps, start=1) if step.is_visible()]


MOVES = "() => document.querySelector('.front-steps').getAnimations({subtree: true}).length"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_the_picture_is_stepped_through_by_mouse_and_keyboard(browser, site, motion):
    wide = 390 if motion == "reduce" else 1280
    with opened(browser, site, PAGE, width=wide, reduced_motion=motion) as (page, faults):
        last, place = len(PICTURE), page.url
        doors = page.locator(".doors").bounding_box()
        buttons = page.locator(".front-controls")
        first = buttons.get_by_role("button", name=re.compile("^1: "))
        assert shown(page) == [1] and page.evaluate(MOVES) == 0
        buttons.get_by_role("button", name="Next").click()
        assert shown(page) == [2]
        status = buttons.get_by_role("status").inner_text()
        assert status == f"Step 2 of {last}: {PICTURE[1].title}"
        for _ in range(2):
            buttons.get_by_role("button", name="Back").click()
        assert shown(page) == [last]  # before the first comes the last
        first.click()
        assert shown(page) == [1] and first.get_attribute("aria-current") == "step"
        for key, at in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2)):
            page.keyboard.press(key)
            assert shown(page) == [at]
        assert page.url == place  # the theme turns pages with arrow keys
        assert page.locator(".doors").bounding_box() == doors  # nothing below moves
        copy = next(i for i, step in enumerate(PICTURE, start=1) if step.way == "copied")
        buttons.get_by_role("button", name=re.compile(f"^{copy}: ")).click()
        assert (page.evaluate(MOVES) > 0) == (motion == "no-preference") and faults == []


def all_at_once(page):
    tops = [step.bounding_box()["y"] for step in page.locator(STEP).all() if step.is_visible()]
    buttons = page.locator(".front-controls").is_visible()
    return len(tops) == len(PICTURE) and tops == sorted(set(tops)) and not buttons


def test_without_a_script_and_on_paper_all_steps_are_shown(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert all_at_once(page) and faults == []
    with opened(browser, site, PAGE) as (page, _):
        assert not all_at_once(page)
        page.emulate_media(media="print")
        assert all_at_once(page)


def test_the_first_screen_holds_what_makes_one_start(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        for width, height, last in ((1280, 740, ".doors"), (390, 844, ".front-controls")):
            page.set_viewport_size({"width": width, "height": height})
            for part in ("h1", ".front-start", last):
                box = page.locator(f"article {part}").first.bounding_box()
                assert 0 <= box["y"] and box["y"] + box["height"] <= height, (part, width)
