"""The front page: the clinic as it was recorded, read by hand, by keyboard, on paper."""

import re

import pytest
from browsing import opened
from bs4 import BeautifulSoup
from helpers import ROOT

from tools.book.book import Book
from tools.site.front import duration, read_versions
from tools.site.timeline import timeline_html

BOOK = Book(ROOT)
VERSIONS = read_versions(BOOK)
LAST = len(VERSIONS) - 1
# The versions that do not fail.
RUNNING = [version for version in VERSIONS if version.timeline]
PAGE = f"{BOOK.documents[0]}.html"
STEP = ".front-step"
FIGURES = ".front-step figure.timeline"


def text_of(box):
    return " ".join(box.get_text().split())


@pytest.fixture(scope="module")
def front(site):
    """The page with all its versions, which are in templates until they are shown."""
    text = (site / PAGE).read_text(encoding="utf-8")
    return BeautifulSoup(text.replace("template>", "div>"), "html.parser")


def test_every_version_has_what_was_measured(front):
    steps = front.select(STEP)
    assert len(RUNNING) == len(VERSIONS) - 2
    for version, step in zip(VERSIONS, steps, strict=True):
        text = text_of(step)
        assert f"{version.number} {version.title}" in text
        if version.error:
            assert version.error in text
        else:
            figures = (
                f"{version.takes} ms, GPU busy {version.works}, {version.holds} MiB"
            )
            assert figures in text


def test_every_repair_is_shown_as_a_diff(front):
    for version, step in zip(VERSIONS, front.select(STEP), strict=True):
        lines = [line.get_text() for line in step.select(".front-diff :is(ins, del)")]
        assert lines == version.changes


def test_the_first_and_the_last_script_are_linked(front):
    names = [link["href"].rpartition("/")[2] for link in front.select(".front-from a")]
    assert names == [VERSIONS[0].file, VERSIONS[-1].file]


def test_every_version_that_runs_has_its_own_timeline(front):
    span = max(duration(version.timeline) for version in RUNNING)
    for version, step in zip(VERSIONS, front.select(STEP), strict=True):
        figures = step.select("figure")
        if not version.timeline:
            assert figures == []
            continue
        [figure] = figures
        html = timeline_html(version.timeline, span=span)
        drawn = BeautifulSoup(html, "html.parser")
        assert text_of(figure.table) == text_of(drawn.table)
        assert len(figure.select("rect")) == len(drawn.select("rect"))


def test_the_first_words_have_what_was_measured(front):
    lead = text_of(front.select_one(".front-lead"))
    for version in (RUNNING[0], RUNNING[-1]):
        assert version.takes in lead
        assert version.holds in lead


def test_every_repair_leads_to_a_section_that_is_there(site, front):
    links = front.select(".front-said a")
    assert len(links) == len(VERSIONS)
    for link in links:
        path, _, section = link["href"].partition("#")
        text = ((site / PAGE).parent / path).read_text(encoding="utf-8")
        assert f'id="{section}"' in text, link["href"]


def test_it_says_that_no_real_gpu_has_run_the_book_until_one_has():
    page = (ROOT / "book" / "simulation.md").read_text("utf-8")
    cards = [made for made in BOOK.recordings if made.runner.is_real_gpu]
    answers = list((ROOT / "cudasim" / "fidelity").glob("answers/*.json"))
    has_run = bool(cards or answers)
    assert ("No real GPU has run this book yet" in page) == (not has_run)


def shown_version(page):
    """Return the number of the version in sight, whose timeline alone is in the document."""
    [step] = [step for step in page.locator(STEP).all() if step.is_visible()]
    number = int(step.locator("b").first.inner_text())
    has_timeline = bool(VERSIONS[number].timeline)
    assert page.locator(FIGURES).count() == int(has_timeline)
    return number


@pytest.mark.parametrize("width", [390, 1280])
def test_the_versions_are_stepped_through_by_mouse(browser, site, width):
    with opened(browser, site, PAGE, width=width) as (page, faults):
        controls = page.locator(".front-controls")
        assert shown_version(page) == RUNNING[0].number
        controls.get_by_role("button", name="Next").click()
        assert shown_version(page) == RUNNING[0].number + 1
        status = " ".join(controls.get_by_role("status").inner_text().split())
        assert f"≈ {RUNNING[1].takes} ms, GPU busy" in status

        controls.get_by_role("button", name=re.compile("^0: ")).click()
        assert shown_version(page) == 0
        # Before the first comes the last.
        controls.get_by_role("button", name="Back").click()
        assert shown_version(page) == LAST
        last = controls.get_by_role("button", name=re.compile(f"^{LAST}: "))
        assert last.get_attribute("aria-current") == "step"
        # A timeline that came later zooms, too.
        page.locator(f"{FIGURES} [data-zoom='2']").click()
        assert "200%" in page.locator(f"{FIGURES} svg").first.get_attribute("style")
        assert page.locator("*").count() < 4000
        assert faults == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_versions_are_stepped_through_by_keyboard(browser, site, width):
    with opened(browser, site, PAGE, width=width) as (page, faults):
        address = page.url
        controls = page.locator(".front-controls")
        last = controls.get_by_role("button", name=re.compile(f"^{LAST}: "))
        last.click()
        for key, number in (
            ("ArrowRight", 0),
            ("ArrowLeft", LAST),
            ("ArrowLeft", LAST - 1),
        ):
            page.keyboard.press(key)
            assert shown_version(page) == number
        # The theme would turn the page with an arrow key.
        assert page.url == address
        assert faults == []


def test_without_scripts_all_versions_are_below_one_another(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        steps = page.locator(f"{STEP}:visible").all()
        tops = [step.bounding_box()["y"] for step in steps]
        assert len(tops) == len(VERSIONS)
        assert tops == sorted(set(tops))
        # The first and the last have their timelines.
        assert page.locator(FIGURES).count() == 2
        assert not page.locator(".front-controls").is_visible()
        assert faults == []


def test_on_paper_are_all_versions(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.emulate_media(media="print")
        assert page.locator(f"{STEP}:visible").count() == len(VERSIONS)


@pytest.mark.parametrize(("width", "height"), [(1280, 740), (390, 844)])
def test_the_first_screen_holds_what_makes_one_start(browser, site, width, height):
    with opened(browser, site, PAGE, width=width, height=height) as (page, _):
        for part in ("h1", ".front-lead", ".front-start", ".front-controls"):
            box = page.locator(f"article {part}").first.bounding_box()
            assert box["y"] >= 0, part
            assert box["y"] + box["height"] <= height, part
