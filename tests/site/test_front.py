"""The front page: its picture is true, and is read by hand, by keyboard, on paper, without script.

What is checked is also broken, to show that the check notices it.
"""

import re

import pytest
from browsing import doctor, opened
from bs4 import BeautifulSoup
from helpers import ROOT

from tools.book.book import Book
from tools.book.links import launch_links
from tools.site.front import GPUS, PICTURE, RUNNER
from tools.site.timeline import MIME, timeline_html

PAGE = f"{Book(ROOT).documents[0]}.html"
STEP, DOORS = ".front-step", ".doors a, .front-start a"
BOOK = Book(ROOT)


def soup(site):
    return BeautifulSoup((site / PAGE).read_text(encoding="utf-8"), "html.parser")


# The picture is what the chapters printed.


def untrue(page):
    """What the picture shows that its cells did not print, by the title of the step."""
    found, shown = [], page.select(STEP)
    if len(shown) != len(PICTURE):
        return [f"{len(shown)} steps"]
    there = ""  # all that was printed up to here
    for step, box in zip(PICTURE, shown, strict=True):
        cell = BOOK.recording(RUNNER, step.chapter).cells[step.cell]
        data = [output.get("data", {}) for output in cell.outputs]
        if step.way == "timeline":
            (payload,) = [each[MIME] for each in data if MIME in each]
            drawn = BeautifulSoup(timeline_html(payload), "html.parser")
            if drawn.get_text() not in box.get_text() or len(drawn.select("rect")) < 9:
                found.append(step.title)
            continue
        printed = "".join(
            output.get("text") or each.get("text/plain", "")
            for output, each in zip(cell.outputs, data, strict=True)
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


def test_every_step_shows_what_its_cell_printed(site):
    assert untrue(soup(site)) == []
    assert "Expected all tensors to be on the same device" in soup(site).get_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Expected all tensors", "Found some tensors"),
        ("<i>1.</i>", "<i>7.</i>"),
        ("front-gpu gpu0", "front-gpu gpu1"),
        ("≈ 86 % busy", "≈ 99 % busy"),
        ("Traceback (most", "Trace (most"),
    ],
)
def test_a_picture_that_is_not_true_is_noticed(doctored, old, new):
    text = (doctored / PAGE).read_text(encoding="utf-8")
    place = re.search(re.escape(old) if "%" not in old else r"≈ \d+ % busy", text)
    assert place
    (doctored / PAGE).write_text(text.replace(place[0], new, 1), encoding="utf-8")
    assert untrue(soup(doctored)) != []


# The doors.


def dead_ends(site):
    """Links of the first screen that lead nowhere on this site, or elsewhere than to Colab."""
    page, (chapter, *_) = soup(site), BOOK.chapters
    colab = launch_links(chapter, BOOK.repository)[0].url
    links = [link["href"] for link in page.select(DOORS)]
    assert colab.startswith("https://colab.research.google.com/")
    return [
        link
        for link in links
        if link != colab and not ((site / PAGE).parent / link.partition("#")[0]).is_file()
    ] + [colab] * (links.count(colab) != 1)


def test_every_door_opens(site):
    assert dead_ends(site) == []
    start = soup(site).select_one(".front-go")
    assert start["href"] == f"../notebooks/{next(iter(BOOK.chapters))}.html"
    assert len(soup(site).select(".doors li")) == 3


@pytest.mark.parametrize(
    ("old", "new"), [('"simulation.html"', '"gone.html"'), ("colab.research", "colab")]
)
def test_a_door_that_leads_nowhere_is_noticed(doctored, old, new):
    doctor(doctored, PAGE, old, new)
    assert len(dead_ends(doctored)) >= 1


def test_every_chapter_is_on_the_front_page(site):
    links = {link["href"].partition("#")[0] for link in soup(site).select("article a[href]")}
    assert {f"../notebooks/{name}.html" for name in BOOK.chapters} - links == set()


def test_it_says_that_no_real_gpu_has_run_the_book_as_long_as_none_has():
    said = "No real GPU has run this book yet" in (ROOT / "book" / "preface.md").read_text("utf-8")
    cards = [name for name in BOOK.recordings if name not in BOOK.runners]
    answers = [*(ROOT / "cudasim" / "fidelity").glob("answers/*.json")]
    assert said == (not cards and not answers)


# By hand.


def shown(page):
    """Which steps are seen."""
    steps = page.locator(STEP).all()
    return [i for i, step in enumerate(steps, start=1) if step.is_visible()]


def stepped(page):
    """What goes wrong when the picture is stepped through; empty if nothing does."""
    last = len(PICTURE)
    place, doors = page.url, page.locator(".doors").bounding_box()
    buttons = page.locator(".front-controls")
    numbers = {i: buttons.get_by_role("button", name=re.compile(f"^{i}: ")) for i in (1, last)}
    assert shown(page) == [1]
    top = page.locator(STEP).nth(0).bounding_box()["y"]
    buttons.get_by_role("button", name="Next").click()
    assert shown(page) == [2] and page.locator(STEP).nth(1).bounding_box()["y"] == top
    status = buttons.get_by_role("status").inner_text()
    assert status == f"Step 2 of {last}: {PICTURE[1].title}"
    buttons.get_by_role("button", name="Back").click()
    buttons.get_by_role("button", name="Back").click()
    assert shown(page) == [last]  # before the first comes the last
    numbers[1].click()
    assert shown(page) == [1] and numbers[1].get_attribute("aria-current") == "step"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert shown(page) == [3]
    page.keyboard.press("ArrowLeft")
    assert shown(page) == [2] and numbers[1].get_attribute("aria-current") is None
    page.keyboard.press("Tab")  # the button stays where the keyboard is
    page.keyboard.press("Enter")
    assert shown(page) == [2] and page.url == place
    assert page.locator(".doors").bounding_box() == doors  # nothing below moves


@pytest.mark.parametrize("width", [1280, 390])
def test_the_picture_is_stepped_through_by_mouse_and_keyboard(browser, site, width):
    with opened(browser, site, PAGE, width=width) as (page, faults):
        stepped(page)
        assert faults == []


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("_static/front.js", "+ steps.length) % steps.length", ")"),
        ("_static/front.js", "status.textContent", "status.title"),
        ("_static/front.css", "grid-area: 1 / 1;", ""),
        ("_static/front.css", "visibility: hidden;", ""),
        (PAGE, "front.js", "gone.js"),
    ],
)
def test_a_picture_that_cannot_be_stepped_through_is_noticed(browser, doctored, place, old, new):
    doctor(doctored, place, old, new)
    with opened(browser, doctored, PAGE) as (page, _):
        page.set_default_timeout(3000)
        with pytest.raises(Exception):  # noqa: B017  (an assertion, or a time-out of the browser)
            stepped(page)


# Without script, on paper, with less motion.


def all_at_once(page):
    """Whether every step is seen, one under another, and no button that would do nothing."""
    tops = [step.bounding_box()["y"] for step in page.locator(STEP).all() if step.is_visible()]
    buttons = page.locator(".front-controls").is_visible()
    return len(tops) == len(PICTURE) and tops == sorted(set(tops)) and not buttons


def test_without_a_script_all_steps_are_shown(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert all_at_once(page) and faults == []


def test_on_paper_all_steps_are_shown(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        assert not all_at_once(page)
        page.emulate_media(media="print")
        assert all_at_once(page)


@pytest.mark.parametrize(
    ("old", "new"),
    [(".with-steps .front-step {", ".front-step {"), ("@media screen {", "@media {")],
)
def test_steps_that_only_a_script_shows_are_noticed(browser, doctored, old, new):
    doctor(doctored, "_static/front.css", old, new)
    with opened(browser, doctored, PAGE, java_script_enabled=False) as (page, _):
        alone = all_at_once(page)
    with opened(browser, doctored, PAGE) as (page, _):
        page.emulate_media(media="print")
        assert not alone or not all_at_once(page)


MOVES = "() => document.querySelector('.front-steps').getAnimations({subtree: true}).length"


def moving(browser, site, motion):
    """How much moves in the picture: at first, and at its copy."""
    with opened(browser, site, PAGE, reduced_motion=motion) as (page, _):
        at_first = page.evaluate(MOVES)
        copy = next(i for i, step in enumerate(PICTURE, start=1) if step.way == "copied")
        page.get_by_role("button", name=re.compile(f"^{copy}: ")).click()
        return at_first, page.evaluate(MOVES)


def test_it_moves_only_when_stepped_and_for_who_did_not_ask_for_less(browser, site):
    assert moving(browser, site, "reduce") == (0, 0)
    at_first, then = moving(browser, site, "no-preference")
    assert at_first == 0 and then > 0


def test_motion_for_who_asked_for_less_is_noticed(browser, doctored):
    doctor(doctored, "_static/front.css", "and (prefers-reduced-motion: no-preference)", "")
    assert moving(browser, doctored, "reduce") != (0, 0)


# The first screen.


@pytest.mark.parametrize(
    ("width", "height", "seen"),
    [
        (1280, 740, ("h1", ".front-start", ".front-steps", ".doors")),
        (768, 1024, ("h1", ".front-start", ".front-steps")),
        (390, 844, ("h1", ".front-start", ".front-controls")),
    ],
)
def test_the_first_screen_holds_what_makes_one_start(browser, site, width, height, seen):
    with opened(browser, site, PAGE, width=width, height=height) as (page, _):
        for part in seen:
            box = page.locator(f"article {part}").first.bounding_box()
            assert 0 <= box["y"] and box["y"] + box["height"] <= height, part
        sentence = page.locator("article section > h1 + p").inner_text()
        assert sentence.count(".") == 1 and sentence.endswith(".")


def test_screen_readers_are_told_where_tensors_are(site):
    told = [box["aria-label"] for box in soup(site).select(".front-gpus")]
    assert told[0] == "GPU 0 holds X. GPU 1 holds Y."
    assert told[1].endswith("Their sum is refused.")
    assert "Z is a copy of X." in told[2]


def test_the_pages_about_the_picture_are_no_heavier_for_it(site):
    """Only the front page loads what draws it."""
    loads = [path.name for path in site.rglob("*.html") if "front.js" in path.read_text("utf-8")]
    assert loads == [PAGE.rpartition("/")[2]]
