"""Timelines on a page as built: in each runner's tab, by mouse and keyboard, and without a script.

The page is that of a tiny book: one runner's times are modelled, the other's measured.
"""

import shutil

import pytest
from browsing import doctor, opened, violations
from helpers import build_site, copy_kernel, dress, keep, text
from nbformat.v4 import new_output
from test_accessibility import font_faults, looks, overflows, shift_faults, unmarked

from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from tools.site.timeline import ROW

PAGE = "notebooks/first.html"
STEPS = 30


def display(source):
    """What a cell leaves that shows a timeline of a few steps, each with a wait."""
    spans = []
    for at in range(0, STEPS * 100_000, 100_000):
        spans += [
            Span("Python", "mm", at, at + 9_000, "operation"),
            Span("Python", "item", at + 9_000, at + 80_000, "wait"),
            Span("cuda:0 stream 0", "mm", at + 9_000, at + 70_000, "kernel"),
            Span("cuda:0 copies out", "copy", at + 70_000, at + 71_000, "copy", 4),
        ]
    spans.append(Span("cuda:1 stream 0", "addmm", 0, 2_000_000, "kernel"))
    timeline = Timeline()
    timeline.fill(spans, source, ["the first 3 spans were dropped: there are too many"])
    return new_output("display_data", data=timeline._repr_mimebundle_())


@pytest.fixture(scope="module")
def timelines(recorded, tmp_path_factory):
    """The folder of a site whose first page has a timeline in each of two tabs."""
    root = shutil.copytree(recorded, tmp_path_factory.mktemp("timelines") / "book")
    copy_kernel(root, "simulated")
    dress(root)
    for runner, source in (("cpu", "measured on a processor"), ("simulated", "modelled for a T4")):
        keep(root, "first", runner, {"make": [text("as ever\n")], "show": [display(source)]})
        keep(root, "second", runner, {"sum": [text("4\n")]})
    return build_site(root)


@pytest.fixture
def doctored_timelines(timelines, tmp_path):
    return shutil.copytree(timelines, tmp_path / "site")


def in_tab(page, runner):
    """The timeline of a runner, seen because its tab was chosen."""
    page.locator(f"[role=tab][data-runner={runner}]").click()
    return page.locator(f".runner-output[data-runner={runner}] .timeline")


def width(figure):
    return figure.locator(".timeline-view > svg").evaluate("svg => svg.clientWidth")


def said(figure):
    return figure.locator(".timeline-said").inner_text()


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
@pytest.mark.parametrize("window", [1280, 360])
def test_a_timeline_zooms_pans_and_says_what_a_bar_is(browser, timelines, runner, window):
    with opened(browser, timelines, PAGE, width=window) as (page, faults):
        figure = in_tab(page, runner)
        view, whole = figure.locator(".timeline-view"), width(figure)
        place = page.url
        # The buttons.
        figure.get_by_role("button", name="Zoom in").click()
        assert width(figure) == pytest.approx(2 * whole, abs=2)
        figure.get_by_role("button", name="Zoom out").click()
        figure.get_by_role("button", name="Zoom out").click()
        assert width(figure) == whole  # never smaller than its column
        # The keys.
        view.focus()
        assert said(figure).startswith("mm (Python): begins at ≈ 0 ms, takes ≈ 0.0090 ms")
        for key, part in [
            ("ArrowRight", "item (Python): begins at ≈ 0.0090 ms, takes ≈ 0.0710 ms"),
            ("ArrowDown", "mm (cuda:0 stream 0)"),
            ("ArrowDown", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
            ("ArrowDown", "addmm (cuda:1 stream 0)"),
            ("ArrowDown", "addmm (cuda:1 stream 0)"),  # there is no lane below
            ("ArrowUp", "copy (cuda:0 copies out): begins at ≈ 0.9700 ms"),
            ("ArrowUp", "mm (cuda:0 stream 0): begins at ≈ 0.9090 ms"),
            ("Home", "mm (cuda:0 stream 0): begins at ≈ 0.0090 ms"),
            ("ArrowLeft", "mm (cuda:0 stream 0): begins at ≈ 0.0090 ms"),  # nor a bar before it
        ]:
            page.keyboard.press(key)
            assert said(figure).startswith(part), key
        for _ in range(4):
            page.keyboard.press("+")
        assert width(figure) == pytest.approx(16 * whole, abs=16)
        for _ in range(STEPS):
            page.keyboard.press("ArrowRight")
        assert "begins at ≈ 2.909 ms" in said(figure)
        moved = view.evaluate("view => view.scrollLeft")
        assert moved > 8 * whole  # the window follows
        page.keyboard.press("Shift+ArrowLeft")
        assert view.evaluate("view => view.scrollLeft") < moved
        ticks = figure.locator(".timeline-axis text").all_text_contents()
        assert len(set(ticks)) == len(ticks) >= 4
        page.keyboard.press("0")
        assert width(figure) == whole
        # The wheel, which without Ctrl is the page's, and the mouse.
        box = view.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 17)
        page.mouse.wheel(0, -10)
        assert width(figure) == whole
        view.scroll_into_view_if_needed()
        box = view.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 1.5 * ROW)
        assert "mm (cuda:0 stream 0): begins at ≈ 1.509 ms" in said(figure)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -400)
        page.keyboard.up("Control")
        page.wait_for_function(
            "([svg, whole]) => Math.abs(svg.clientWidth - 4 * whole) < 9",
            arg=[figure.locator(".timeline-view > svg").element_handle(), whole],
        )
        middle = view.evaluate("view => (view.scrollLeft + view.clientWidth / 2) / 4")
        assert middle == pytest.approx(whole / 2, abs=3)  # what is under the mouse stays there
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 1.5 * ROW, steps=4)
        page.mouse.up()
        assert view.evaluate("view => (view.scrollLeft + view.clientWidth / 2) / 4") > middle + 9
        assert (page.url, faults) == (place, [])


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
def test_a_page_with_timelines_has_no_fault(browser, timelines, runner):
    with opened(browser, timelines, PAGE) as (page, faults):
        found = {"load": faults, "shift": shift_faults(page), "fonts": font_faults(page)}
        figure = in_tab(page, runner)
        for look in looks(page):
            found[f"axe, {look}"] = violations(page)
            found[f"overflow, {look}"] = overflows(page)
        figure.locator("summary").click()
        for look in looks(page):
            found[f"axe with the table, {look}"] = violations(page)
            found[f"overflow with the table, {look}"] = overflows(page)
        found["the keyboard's mark"] = unmarked(page)
    assert {check: faults for check, faults in found.items() if faults} == {}


def colours(page):
    """(contrast, what) of bars against the page and of names against their bars, as computed."""
    return page.evaluate(
        """() => {
          const canvas = document.createElement("canvas").getContext("2d");
          const light = colour => {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => {
              const share = part / 255;
              return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
          };
          const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          const paint = (box, name) => light(getComputedStyle(box)[name]);
          const figure = document.querySelector(".shown .timeline");
          let ground = figure;
          while (/, 0\\)$/.test(getComputedStyle(ground).backgroundColor))
            ground = ground.parentElement;
          const back = paint(ground, "backgroundColor");
          return [...figure.querySelectorAll(".timeline-view rect")].map(bar => [
            contrast(paint(bar, bar.matches(".wait") ? "stroke" : "fill"), back),
            bar.getAttribute("class")
          ]).concat([...figure.querySelectorAll("rect + svg text")].map(text => [
            contrast(paint(text, "fill"), paint(text.parentNode.previousElementSibling, "fill")),
            `a name ${text.parentNode.getAttribute("class")}`,
          ]));
        }"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bars_and_the_names_in_them_are_seen(browser, timelines, scheme):
    with opened(browser, timelines, PAGE, color_scheme=scheme) as (page, _):
        found = colours(page)
    kinds = {tuple(what.split()[:2]) for _, what in found}
    assert kinds >= {("operation", "host"), ("kernel", "gpu0"), ("kernel", "gpu1")}
    assert kinds >= {("wait", "wait"), ("copy", "copy"), ("a", "name")}
    assert [each for each in found if each[0] < (4.5 if "a name" in each[1] else 3)] == []


def test_a_wait_is_hatched_by_a_pattern_of_its_own(browser, timelines):
    """Colour is never alone. Ids are those of one figure, as two tabs have two."""
    with opened(browser, timelines, PAGE) as (page, _):
        marks = page.locator("pattern").evaluate_all("all => all.map(each => each.id)")
        assert len(set(marks)) == len(marks) == page.locator(".timeline").count() == 2
        for figure, mark in zip(page.locator(".timeline").all(), marks, strict=True):
            fills = figure.locator("rect.wait").evaluate_all(
                "all => [...new Set(all.map(each => getComputedStyle(each).fill))]"
            )
            assert fills == [f'url("#{mark}")']


def test_without_javascript_it_stands_still_over_its_table(browser, timelines):
    with opened(browser, timelines, PAGE, java_script_enabled=False) as (page, faults):
        for figure in page.locator(".timeline").all():
            assert (
                figure.locator("rect").count()
                == figure.locator("tbody tr").count()
                == 4 * STEPS + 1
            )
            assert figure.locator(".timeline-view").is_visible()
            assert not figure.locator(".timeline-tools").is_visible()
            assert "the first 3 spans were dropped" in figure.inner_text()
            figure.locator("summary").click()
            assert figure.locator("table").is_visible()
        assert page.locator(".timeline").count() == 2 and faults == []


def test_screen_readers_are_told_what_it_shows(browser, timelines):
    with opened(browser, timelines, PAGE) as (page, _):
        figure = in_tab(page, "simulated")
        picture = figure.get_by_role("img")
        assert picture.get_attribute("aria-label").startswith("Timeline, modelled for a T4: ≈ 2.98")
        figure.locator("summary").click()
        table = figure.get_by_role("table")
        assert "Python: 30 operations, 30 waits" in table.locator("caption").inner_text()
        assert table.get_by_role("columnheader").count() == 5
        assert figure.get_by_role("status").count() == 1


SCRIPT = "_static/timeline.js"


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (SCRIPT, "zoom = Math.min(", "zoom = 0 && Math.min("),
        (SCRIPT, "said.textContent = bar ? bar.text", "said.textContent = bar ? ''"),
        (SCRIPT, "reveal(chosen);", ""),
        (SCRIPT, "if (!event.ctrlKey) return;", ""),
        (SCRIPT, "view.scrollLeft -= event.movementX;", ""),
        (SCRIPT, "view.scrollLeft = point", "view.scrollLeft = 0 * point"),
        (PAGE, "timeline.js", "gone.js"),
    ],
)
def test_a_script_that_is_broken_is_noticed(browser, doctored_timelines, place, old, new):
    doctor(doctored_timelines, place, old, new)
    with pytest.raises(Exception):  # noqa: B017  (an assertion, or a time-out of the browser)
        test_a_timeline_zooms_pans_and_says_what_a_bar_is(
            browser, doctored_timelines, "simulated", 1280
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--colour-gpu1: #d55e00", "--colour-gpu1: #fdd"),
        ("--on-gpu1: #10141a", "--on-gpu1: #888"),
        ("--colour-wait: #cc79a7", "--colour-wait: #fdd"),
    ],
)
def test_a_colour_that_is_not_seen_is_noticed(browser, doctored_timelines, old, new):
    doctor(doctored_timelines, "_static/book.css", old, new)
    with pytest.raises(AssertionError):
        test_bars_and_the_names_in_them_are_seen(browser, doctored_timelines, "light")
