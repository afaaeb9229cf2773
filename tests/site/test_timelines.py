"""Timelines in the hands of a reader: buttons, keys, the mouse, and without any of them."""

import pytest
from browsing import NARROW, WIDE, opened
from faults import layout_faults, look, shift_faults, unmarked_controls, violations
from tiny import STEPS

from cudasim.clock.drawing import COLOURS

PAGE = "notebooks/second.html"
# What is in the middle of the window, in pixels of a figure that fits its column.
MIDDLE = "view => (view.scrollLeft + view.clientWidth / 2) / 4"
FOUR_TIMES = "([svg, whole]) => Math.abs(svg.clientWidth - 4 * whole) < 9"
COLOUR = "bar => getComputedStyle(bar).fill"
COLOURS_OF_ALL = "all => [...new Set(all.map(bar => getComputedStyle(bar).fill))]"


class Figure:
    """The timeline of a runner, in sight because its tab was chosen."""

    def __init__(self, page, runner):
        page.locator(f".runner-outputs [role=tab][data-runner={runner}]").first.click()
        self.page = page
        self.box = page.locator(f".runner-output[data-runner={runner}] .timeline")
        self.view = self.box.locator(".timeline-view")
        self.drawing = self.box.locator(".timeline-view > svg")

    def click(self, name):
        self.box.get_by_role("button", name=name).click()

    def press(self, key, times=1):
        for _ in range(times):
            self.page.keyboard.press(key)

    @property
    def width(self):
        return self.drawing.evaluate("svg => svg.clientWidth")

    @property
    def scrolled(self):
        return self.view.evaluate("view => view.scrollLeft")

    @property
    def words(self):
        """What is said of the bar that is focused or pointed at."""
        return self.box.locator(".timeline-said").inner_text()


@pytest.fixture
def figure(browser, tiny_site):
    with opened(browser, tiny_site, PAGE) as (page, faults):
        address = page.url
        yield Figure(page, "simulated")
        # The theme would turn the page with an arrow key.
        assert page.url == address
        assert faults == []


def test_a_timeline_is_zoomed_by_buttons(figure):
    whole = figure.width
    figure.click("Zoom in")
    assert figure.width == pytest.approx(2 * whole, abs=2)
    figure.click("Zoom out")
    figure.click("Zoom out")
    # It is never smaller than its column.
    assert figure.width == whole


def test_the_keys_walk_from_bar_to_bar(figure):
    figure.view.focus()
    first = "mm (Python): begins at ≈ 0 ms, takes ≈ 0.0090 ms"
    assert figure.words.startswith(first)
    for key, words in [
        ("ArrowRight", "item (Python): begins at ≈ 0.0090 ms, takes ≈ 0.0710 ms"),
        ("ArrowDown", "mm (cuda:0 stream 0)"),
        ("ArrowDown", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
        ("ArrowDown", "addmm (cuda:1 stream 0)"),
        # There is no lane below.
        ("ArrowDown", "addmm (cuda:1 stream 0)"),
        ("ArrowUp", "copy (cuda:0 copies out): begins at ≈ 0.9700 ms"),
        ("Home", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
        # Nor is there a bar before it.
        ("ArrowLeft", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
    ]:
        figure.press(key)
        assert figure.words.startswith(words), key


def test_the_window_follows_the_keys(figure):
    whole = figure.width
    figure.view.focus()
    figure.press("+", times=4)
    assert figure.width == pytest.approx(16 * whole, abs=16)
    figure.press("ArrowDown")
    figure.press("End")
    assert "begins at ≈ 2.909 ms" in figure.words
    moved = figure.scrolled
    assert moved > 8 * whole

    figure.press("Shift+ArrowLeft")
    assert figure.scrolled < moved
    ticks = figure.box.locator(".timeline-axis text").all_text_contents()
    assert len(ticks) >= 4
    assert len(set(ticks)) == len(ticks)
    figure.press("0")
    assert figure.width == whole


def test_the_wheel_zooms_with_control_alone(figure):
    whole = figure.width
    box = figure.view.bounding_box()
    row = figure.box.locator("rect").first.bounding_box()["height"]
    mouse = figure.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + row)
    # Without Ctrl, the wheel is the page's.
    mouse.wheel(0, -10)
    assert figure.width == whole

    box, height = point_at_the_middle(figure)
    assert "mm (cuda:0 stream 0): begins at ≈ 1.509 ms" in figure.words
    figure.page.keyboard.down("Control")
    mouse.wheel(0, -400)
    figure.page.keyboard.up("Control")
    drawing = figure.drawing.element_handle()
    figure.page.wait_for_function(FOUR_TIMES, arg=[drawing, whole])
    # What is under the mouse stays there.
    middle = figure.view.evaluate(MIDDLE)
    assert middle == pytest.approx(whole / 2, abs=3)

    mouse.down()
    mouse.move(box["x"] + box["width"] / 4, height, steps=4)
    mouse.up()
    assert figure.view.evaluate(MIDDLE) > middle + 9


def point_at_the_middle(figure):
    """Point at the kernel in the middle; return the box of the view, and how high that is."""
    figure.view.scroll_into_view_if_needed()
    box = figure.view.bounding_box()
    # A step is narrower than its kernel.
    bar = figure.box.locator("rect.kernel").nth(15).bounding_box()
    height = bar["y"] + bar["height"] / 2
    figure.page.mouse.move(box["x"] + box["width"] / 2, height)
    return box, height


def test_a_timeline_has_only_the_bars_in_sight(browser, tiny_site):
    with opened(browser, tiny_site, PAGE) as (page, _):
        assert shift_faults(page) == []
        # Of two timelines of four bars a step, one is out of sight.
        assert page.locator(".timeline rect, .timeline td").count() < 9 * STEPS


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_timeline_is_told_apart_without_its_colours(browser, tiny_site, scheme):
    with opened(browser, tiny_site, PAGE, color_scheme=scheme) as (page, _):
        Figure(page, "cpu").box.locator("pattern").wait_for(state="attached")
        figures = page.locator(".timeline").all()
        patterns = page.locator("pattern").evaluate_all(
            "all => all.map(({ id }) => id)"
        )
        assert len(figures) == 2
        assert len(set(patterns)) == 2
        # A wait is hatched, by a pattern of its own figure.
        for figure, pattern in zip(figures, patterns, strict=True):
            wait = figure.locator("rect.wait").first
            assert wait.evaluate(COLOUR) == f'url("#{pattern}")'


def rgb(name):
    red, green, blue = bytes.fromhex(COLOURS[name].removeprefix("#"))
    return f"rgb({red}, {green}, {blue})"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_timeline_is_seen_and_told_by_everyone(browser, tiny_site, scheme):
    with opened(browser, tiny_site, PAGE, color_scheme=scheme) as (page, faults):
        figure = Figure(page, "simulated").box
        painted = figure.locator("rect:not(.wait)").evaluate_all(COLOURS_OF_ALL)
        expected = {rgb("host"), rgb("gpu0"), rgb("gpu1"), rgb("copy")}
        assert set(painted) == expected

        label = figure.get_by_role("img").get_attribute("aria-label")
        assert label.startswith("Timeline, modelled for a T4: ≈\N{NO-BREAK SPACE}3.0")
        figure.locator("summary").click()
        assert figure.get_by_role("table").is_visible()
        assert figure.get_by_role("status").count() == 1
        assert unmarked_controls(page) == []
        for width in (NARROW, WIDE):
            look(page, width, scheme)
            assert layout_faults(page) == []
        assert violations(page) + faults == []
