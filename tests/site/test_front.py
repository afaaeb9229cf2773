"""The front page: the clinic as it was recorded, read by hand, by keyboard, on paper."""

import re

from browsing import opened
from bs4 import BeautifulSoup
from helpers import ROOT

from tools.book.book import Book
from tools.site.front import read_versions
from tools.site.timeline import timeline_html

BOOK = Book(ROOT)
VERSIONS, RECORDING = read_versions(BOOK)
RUN = [version for version in VERSIONS if version.timeline]
PAGE = f"{BOOK.documents[0]}.html"
STEP = ".front-step"
FIGURES = ".front-step figure.timeline"


def text_of(box):
    return " ".join(box.get_text().split())


def test_every_version_has_the_figures_of_the_scoreboard_and_its_own_timeline(site):
    """A timeline is that of a recording; its time, the peak and the errors are the scoreboard's."""
    text = (site / PAGE).read_text(encoding="utf-8").replace("template>", "div>")
    page = BeautifulSoup(text, "html.parser")
    board = RECORDING.cells["clinic-walk"].outputs[0].data["text/markdown"]
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in board.split("\n")
    ]
    shown = page.select(STEP)
    assert len(VERSIONS) == len(shown) == 13 and len(RUN) > 9
    for version, box, row in zip(VERSIONS, shown, rows[2:], strict=True):
        told, found = text_of(box), dict(zip(rows[0], row, strict=True))
        assert found["version"] == f"{version.number} {version.mend}"
        if version.error:
            assert found["does it run"] == f"no: {version.error.partition(':')[0]}"
            assert version.error in told
            continue
        assert f"≈ {version.takes} ms a pass, {version.holds} MiB" in told
        assert (
            f"{version.holds} MiB" == found["peak on the first GPU, modelled for a T4"]
        )
        assert f"≈ {version.takes} ms" == found["time a pass, modelled for a T4"]
        drawn = BeautifulSoup(timeline_html(version.timeline), "html.parser")
        (figure,) = box.select("figure")
        assert text_of(figure.table) == text_of(drawn.table)
        assert len(figure.select("rect")) == len(drawn.select("rect"))
    lead = text_of(page.select_one(".front-lead"))
    assert all(
        f"{figure}" in lead for v in (RUN[0], RUN[-1]) for figure in (v.takes, v.holds)
    )


def test_every_mend_leads_to_a_section_that_is_there(site):
    page = BeautifulSoup((site / PAGE).read_text(encoding="utf-8"), "html.parser")
    for link in page.select(".front-said a"):
        path, _, section = link["href"].partition("#")
        text = ((site / PAGE).parent / path).read_text(encoding="utf-8")
        assert f'id="{section}"' in text, link["href"]


def test_it_says_that_no_real_gpu_has_run_the_book_as_long_as_none_has():
    said = "No real GPU has run this book yet" in (
        ROOT / "book" / "preface.md"
    ).read_text("utf-8")
    cards = [made for made in BOOK.recordings if not made.runner.is_local]
    answers = [*(ROOT / "cudasim" / "fidelity").glob("answers/*.json")]
    assert said == (not cards and not answers)


def test_the_versions_are_stepped_through_by_mouse_and_keyboard(browser, site):
    for width in (390, 1280):
        with opened(browser, site, PAGE, width=width) as (page, faults):
            controls, place = page.locator(".front-controls"), page.url

            def shown():
                (step,) = [
                    each for each in page.locator(STEP).all() if each.is_visible()
                ]
                drawn = page.locator(FIGURES).count()
                version = VERSIONS[int(step.locator("b").first.inner_text())]
                assert drawn == bool(version.timeline)  # no other is in the document
                return version.number

            assert shown() == RUN[0].number
            controls.get_by_role("button", name="Next").click()
            assert shown() == RUN[0].number + 1
            said = " ".join(controls.get_by_role("status").inner_text().split())
            assert f"≈ {RUN[1].takes} ms a pass, {RUN[1].holds} MiB" in said
            controls.get_by_role("button", name=re.compile("^0: ")).click()
            assert shown() == 0
            controls.get_by_role("button", name="Back").click()
            assert shown() == 12  # before the first comes the last
            last = controls.get_by_role("button", name=re.compile("^12: "))
            assert last.get_attribute("aria-current") == "step"
            last.focus()
            for key, number in (
                ("ArrowRight", 0),
                ("ArrowLeft", 12),
                ("ArrowLeft", 11),
            ):
                page.keyboard.press(key)
                assert shown() == number
            assert page.url == place  # the theme turns pages with arrow keys
            page.locator(
                f"{FIGURES} [data-zoom='2']"
            ).click()  # one that came later zooms, too
            assert "200%" in page.locator(f"{FIGURES} svg").first.get_attribute("style")
            assert page.evaluate("document.querySelectorAll('*').length") < 4000
            assert faults == []


def test_without_a_script_all_versions_are_shown_with_two_timelines(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        boxes = [step.bounding_box() for step in page.locator(STEP).all()]
        tops = [box["y"] for box in boxes if box]
        assert len(tops) == len(VERSIONS) and tops == sorted(set(tops)) and faults == []
        assert page.locator(FIGURES).count() == 2
        assert not page.locator(".front-controls").is_visible()
    with opened(browser, site, PAGE) as (page, _):
        page.emulate_media(media="print")
        assert all(step.is_visible() for step in page.locator(STEP).all())


def test_the_first_screen_holds_what_makes_one_start(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        for width, height in ((1280, 740), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            for part in ("h1", ".front-lead", ".front-start", ".front-controls"):
                box = page.locator(f"article {part}").first.bounding_box()
                assert 0 <= box["y"] and box["y"] + box["height"] <= height, (
                    part,
                    width,
                )
