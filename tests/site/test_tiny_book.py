"""Predictions, tabs and timelines in the hands of a reader: mouse, keyboard, paper, no script."""

import pytest
from browsing import NARROW, WIDE, opened, script
from faults import layout_faults, look, shift_faults, unmarked_controls, violations
from tiny import STEPS

from cudasim.clock.drawing import COLOURS

FIRST, SECOND = "notebooks/first.html", "notebooks/second.html"

# Predictions: covered until a reader chooses or asks.

COVERED = {"all": "false", "shown": [False, False], "pressed": [], "said": ["", ""]}
CHOSEN = COVERED | {"shown": [True, False], "pressed": ["on the cpu"]}
CHOSEN |= {"said": ["No. Right is: on the first GPU", ""]}
EVERYTHING = {"all": "true", "shown": [True, True]}


def state(page):
    """What is in sight; the answer in words is as the output is."""
    page.wait_for_timeout(50)  # a cover tells that it was opened a moment later
    found = page.evaluate(script("predictions"))
    assert found.pop("told") == found["shown"]
    return found


def choose(page, words):
    page.locator(".prediction button", has_text=words).click()


def covers(page):
    return page.locator("details.covered > summary")


def test_a_choice_uncovers_its_output_and_who_does_not_choose_sees_one_or_all(
    browser, tiny_site
):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        assert state(page) == COVERED
        choose(page, "on the cpu")
        page.get_by_text("nowhere yet").dispatch_event(
            "click"
        )  # too late: the answer is in sight
        page.goto(page.url.replace(FIRST, SECOND))
        page.go_back()
        assert state(page) == CHOSEN
        switch = page.get_by_role("button", name="Show everything")
        switch.click()
        page.reload()
        assert state(page) == CHOSEN | EVERYTHING
        switch.click()
        assert state(page) == CHOSEN  # what was chosen outlasts it
        covers(page).first.click()
        assert state(page) == COVERED  # covered again, and the choice is open again
        covers(page).last.click()
        page.reload()
        assert state(page) == COVERED | {"shown": [False, True]}
        covers(page).last.click()
        choose(page, "on the first GPU")
        assert state(page)["said"][0] == "Right: on the first GPU" and faults == []


STOPS = ["Show everything", "on the cpu", "on the first GPU", "nowhere yet"]
STOPS += ["Show the answer"] * 2


def test_predictions_are_worked_by_keyboard_and_told_to_screen_readers(
    browser, tiny_site
):
    with opened(browser, tiny_site, FIRST, width=NARROW) as (page, faults):
        stops = []
        while len(stops) < len(STOPS):
            page.keyboard.press("Tab")
            stop = page.evaluate(script("stop"))
            stops += [stop] if stop else []
        assert stops == [[stop, "solid"] for stop in STOPS]
        group = page.get_by_role("group", name="Predict. Where is X?")
        button = group.get_by_role("button").first
        said = page.get_by_role("status").filter(
            has_text="No. Right is: on the first GPU"
        )
        button.focus()
        page.keyboard.press("Enter")
        assert state(page) == CHOSEN and said.count() == 1
        assert group.get_by_role("button", pressed=True).inner_text() == "on the cpu"
        assert group.get_by_role("button", disabled=True).count() == 3
        assert button.evaluate("button => button === document.activeElement")
        covers(page).first.focus()
        page.keyboard.press("Space")
        assert state(page) == COVERED and said.count() == 0
        targets = page.locator(".prediction button, details.covered > summary").all()
        assert len(targets) == 5 and faults == []
        assert [
            target for target in targets if target.bounding_box()["height"] < 44
        ] == []


def test_predictions_on_paper_and_in_both_schemes(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        page.emulate_media(media="print")
        assert state(page)["shown"] == [True, True]
        for words in ("Show everything", "Show the answer"):
            assert not page.get_by_text(words).first.is_visible()
        page.emulate_media(media="screen")
        choose(page, "on the cpu")
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            look(page, width, scheme)
            assert violations(page) + layout_faults(page) + faults == []


def test_without_the_script_predictions_are_disclosures_in_the_same_places(
    browser, tiny_site
):
    own = (tiny_site / "_static" / "predictions.js").read_text(encoding="utf-8")
    waits = own.replace('"DOMContentLoaded"', '"never"')
    with opened(browser, tiny_site, FIRST) as (page, faults):
        places = page.evaluate(script("places"))
        page.route("**/predictions.js*", lambda route: route.fulfill(body=waits))
        page.reload()
        assert page.locator(".prediction button").count() == 0
        assert (
            page.evaluate(script("places")) == places
            and len(places) == 10
            and faults == []
        )
    with opened(browser, tiny_site, FIRST, java_script_enabled=False) as (page, faults):
        assert page.locator(".prediction li").all_inner_texts() == STOPS[1:4]
        assert not page.get_by_text("Show everything").is_visible()
        tells = page.locator(".answer").all()
        for cover, told in zip(
            page.locator("details.covered").all(), tells, strict=True
        ):
            printed = cover.locator(".cell_output").first
            assert not printed.is_visible() and not told.is_visible()
            cover.locator("> summary").click()
            assert printed.is_visible() and told.is_visible()
        assert faults == []


# Folds: what is not on the path.

FOLDS = [
    "Run this chapter: links and set-up",
    "What must hold",
    "Helpers; What must hold",
]


def test_folds_are_one_line_until_a_link_leads_into_them_and_open_on_paper(
    browser, tiny_site
):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        assert page.locator("details.machinery > summary").all_text_contents() == FOLDS
        deep = page.get_by_text("Still off it")
        for place in ("", "#end", "#below", "#deeper-sums"):
            page.goto(page.url.partition("#")[0] + place)
            page.reload()
            assert deep.is_visible() == (place in ("#below", "#deeper-sums")), place
            assert deep.is_visible() or shift_faults(page) == []
        page.locator("details.deeper > summary").click(position={"x": 3, "y": 9})
        assert not deep.is_visible()
        page.get_by_role("link", name="Deeper: sums").click()
        assert (
            deep.is_visible()
            and page.get_by_role("heading", name="Deeper: sums").is_visible()
        )
        page.goto(page.url.partition("#")[0])
        page.evaluate("localStorage.setItem('sphinx_highlight_terms', 'still')")
        page.reload()
        deep.wait_for(state="visible")
        page.reload()
        assert not deep.is_visible()
        page.emulate_media(media="print")
        assert deep.is_visible()
        page.emulate_media(media="screen")
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            look(page, width, scheme)
            assert violations(page) + layout_faults(page) + faults == []
    with opened(browser, tiny_site, FIRST, java_script_enabled=False) as (page, faults):
        assert page.get_by_text("Still off it").is_visible() and faults == []


# Tabs: the outputs of one runner at a time.

RUNNERS = ["simulated", "cpu", "h100"]  # on the second page


def chosen(page):
    """The runner whose tab is chosen in every set of the page, and whose panel alone is seen."""
    found = set()
    for one in page.evaluate(script("tabs")):
        (runner,) = [tab["runner"] for tab in one["tabs"] if tab["chosen"]]
        assert [tab["runner"] for tab in one["tabs"] if tab["stop"]] == [runner]
        assert all(tab["seen"] for tab in one["tabs"])
        assert [panel["runner"] for panel in one["panels"] if panel["seen"]] == [runner]
        assert not any(panel["named"] for panel in one["panels"])
        found.add(runner)
    (runner,) = found
    return runner


def stacked(page):
    """Whether no tab is seen, and all panels are, each under the name of its runner."""
    sets = page.evaluate(script("tabs"))
    panels = [panel for one in sets for panel in one["panels"]]
    return not any(tab["seen"] for one in sets for tab in one["tabs"]) and all(
        panel["seen"] and panel["named"] for panel in panels
    )


def tab(page, runner, number=-1):
    return page.locator(f".runner-outputs [role=tab][data-runner={runner}]").nth(number)


def test_a_click_switches_every_set_and_the_choice_is_kept(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, uncovered=True) as (page, faults):
        assert chosen(page) == "simulated"  # who has chosen none
        tab(page, "cpu").click()
        assert chosen(page) == "cpu"
        page.goto(page.url.replace(SECOND, FIRST))
        assert chosen(page) == "cpu"
        another = page.context.new_page()  # another window
        another.goto(page.url.replace(FIRST, SECOND))
        tab(another, "simulated").click()
        page.wait_for_selector(".runner-output.shown[data-runner=simulated]")
        assert chosen(page) == "simulated"
        tab(another, "h100").click()  # a runner that the first page does not have
        page.reload()
        assert chosen(page) == "simulated" and faults == []


def test_tabs_are_reached_and_switched_by_keyboard_and_told_to_screen_readers(
    browser, tiny_site
):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        place, first = page.url, tab(page, "simulated", 0)

        def focused():
            return page.evaluate("document.activeElement.dataset.runner")

        first.focus()  # one stop for the whole set
        page.keyboard.press("Shift+Tab")
        assert focused() is None
        page.keyboard.press("Tab")
        for key, runner in [
            ("ArrowRight", RUNNERS[1]),
            ("ArrowLeft", RUNNERS[0]),
            ("ArrowLeft", RUNNERS[-1]),  # around the end
            ("Home", RUNNERS[0]),
            ("End", RUNNERS[-1]),
        ]:
            page.keyboard.press(key)
            assert (focused(), chosen(page)) == (runner, runner), key
        lists = page.get_by_role("tablist", name="Outputs by runner")
        name = lists.last.get_by_role("tab", selected=True).inner_text()
        assert (
            page.get_by_role("tabpanel", name=name, exact=True).count()
            == lists.count()
            == 2
        )
        page.keyboard.press("Tab")
        assert focused() is None
        assert (page.url, faults) == (
            place,
            [],
        )  # the theme turns pages with arrow keys


def test_the_tab_that_is_clicked_keeps_its_place_on_the_screen(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, width=900, height=500) as (page, _):
        # Above it, outputs that take more room for one runner than for the other. Not every
        # browser anchors what is seen by itself; the script has to do without.
        page.add_style_tag(
            content="[data-runner=simulated].runner-output { min-height: 900px }"
            "html { overflow-anchor: none } body { padding-bottom: 900px }"
        )
        for runner in ("cpu", "simulated"):
            wanted = tab(page, runner)
            wanted.scroll_into_view_if_needed()
            before = wanted.bounding_box()["y"], page.evaluate("scrollY")
            wanted.click()
            after = wanted.bounding_box()["y"], page.evaluate("scrollY")
            assert abs(after[0] - before[0]) <= 1
            assert abs(after[1] - before[1]) > 100  # else there was nothing to keep


def test_on_paper_and_without_scripts_all_outputs_are_seen_under_their_names(
    browser, tiny_site
):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        assert not stacked(page)
        page.emulate_media(media="print")
        assert stacked(page) and faults == []
    with opened(browser, tiny_site, SECOND, java_script_enabled=False) as (
        page,
        faults,
    ):
        assert stacked(page) and faults == []
        for figure in page.locator(".timeline").all():
            assert figure.locator(".timeline-view").is_visible()
            assert not figure.locator(".timeline-tools").is_visible()
            figure.locator("summary").click()
            assert figure.locator("table").is_visible()


# Pictures.


def test_a_picture_is_enlarged_by_a_tap_or_a_key_until_escape(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, width=NARROW) as (page, faults):
        picture = page.locator(".bd-article img:visible").first
        small = picture.bounding_box()["width"]
        for show in (picture.click, lambda: picture.press("Enter")):
            show()
            large = page.get_by_role("dialog").get_by_role("img")
            assert large.bounding_box()["width"] > 3 * small
            assert violations(page) + faults == []
            page.keyboard.press("Escape")
            assert page.get_by_role("dialog").count() == 0
            assert picture.evaluate("picture => picture === document.activeElement")


# Timelines.


def in_tab(page, runner):
    """The timeline of a runner, seen because its tab was chosen."""
    tab(page, runner, 0).click()
    return page.locator(f".runner-output[data-runner={runner}] .timeline")


def width(figure):
    return figure.locator(".timeline-view > svg").evaluate("svg => svg.clientWidth")


def said(figure):
    return figure.locator(".timeline-said").inner_text()


def test_a_timeline_zooms_pans_and_says_what_a_bar_is(browser, tiny_site):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        figure = in_tab(page, "simulated")
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
        assert said(figure).startswith(
            "mm (Python): begins at ≈ 0 ms, takes ≈ 0.0090 ms"
        )
        for key, part in [
            ("ArrowRight", "item (Python): begins at ≈ 0.0090 ms, takes ≈ 0.0710 ms"),
            ("ArrowDown", "mm (cuda:0 stream 0)"),
            ("ArrowDown", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
            ("ArrowDown", "addmm (cuda:1 stream 0)"),
            ("ArrowDown", "addmm (cuda:1 stream 0)"),  # there is no lane below
            ("ArrowUp", "copy (cuda:0 copies out): begins at ≈ 0.9700 ms"),
            ("Home", "copy (cuda:0 copies out): begins at ≈ 0.0700 ms"),
            (
                "ArrowLeft",
                "copy (cuda:0 copies out): begins at ≈ 0.0700 ms",
            ),  # nor a bar before it
        ]:
            page.keyboard.press(key)
            assert said(figure).startswith(part), key
        for _ in range(4):
            page.keyboard.press("+")
        assert width(figure) == pytest.approx(16 * whole, abs=16)
        for _ in range(STEPS):
            page.keyboard.press("ArrowRight")
        assert "begins at ≈ 2.970 ms" in said(figure)
        moved = view.evaluate("view => view.scrollLeft")
        assert moved > 8 * whole  # the window follows
        page.keyboard.press("Shift+ArrowLeft")
        assert view.evaluate("view => view.scrollLeft") < moved
        ticks = figure.locator(".timeline-axis text").all_text_contents()
        assert len(set(ticks)) == len(ticks) >= 4
        page.keyboard.press("0")
        assert width(figure) == whole
        # The wheel, which without Ctrl is the page's, and the mouse.
        row = figure.locator("rect").first.bounding_box()["height"]
        box = view.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + row)
        page.mouse.wheel(0, -10)
        assert width(figure) == whole
        view.scroll_into_view_if_needed()
        box = view.bounding_box()
        bar = (
            figure.locator("rect.kernel").nth(15).bounding_box()
        )  # a step is narrower than it
        at = bar["y"] + bar["height"] / 2
        page.mouse.move(box["x"] + box["width"] / 2, at)
        assert "mm (cuda:0 stream 0): begins at ≈ 1.509 ms" in said(figure)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -400)
        page.keyboard.up("Control")
        page.wait_for_function(
            "([svg, whole]) => Math.abs(svg.clientWidth - 4 * whole) < 9",
            arg=[figure.locator(".timeline-view > svg").element_handle(), whole],
        )
        middle = view.evaluate("view => (view.scrollLeft + view.clientWidth / 2) / 4")
        assert middle == pytest.approx(
            whole / 2, abs=3
        )  # what is under the mouse stays there
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 4, at, steps=4)
        page.mouse.up()
        assert (
            view.evaluate("view => (view.scrollLeft + view.clientWidth / 2) / 4")
            > middle + 9
        )
        assert (page.url, faults) == (place, [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_timeline_is_seen_and_told_by_everyone(browser, tiny_site, scheme):
    with opened(browser, tiny_site, SECOND, color_scheme=scheme) as (page, faults):
        assert shift_faults(page) == []
        drawn = page.locator(".timeline rect, .timeline td").count()
        assert drawn < 9 * STEPS  # one is out of sight
        in_tab(page, "cpu").locator("pattern").wait_for(state="attached")
        # Colour is never alone: a wait is hatched, by a pattern of its own figure.
        marks = page.locator("pattern").evaluate_all("all => all.map(mark => mark.id)")
        assert len(set(marks)) == page.locator(".timeline").count() == 2
        for figure, mark in zip(page.locator(".timeline").all(), marks, strict=True):
            fill = "bar => getComputedStyle(bar).fill"
            assert figure.locator("rect.wait").first.evaluate(fill) == f'url("#{mark}")'
        figure = in_tab(page, "simulated")
        fills = "all => [...new Set(all.map(bar => getComputedStyle(bar).fill))]"
        named = [
            bytes.fromhex(COLOURS[name][1:])
            for name in ("host", "gpu0", "gpu1", "copy")
        ]
        painted = figure.locator("rect:not(.wait)").evaluate_all(fills)
        assert sorted(painted) == sorted(
            f"rgb({', '.join(map(str, rgb))})" for rgb in named
        )
        label = figure.get_by_role("img").get_attribute("aria-label")
        assert label.startswith("Timeline, modelled for a T4: ≈\N{NO-BREAK SPACE}3.0")
        figure.locator("summary").click()
        assert figure.get_by_role("table").is_visible()
        assert figure.get_by_role("status").count() == 1
        assert unmarked_controls(page) == []
        for width in (NARROW, WIDE):
            look(page, width, scheme)
            faults += layout_faults(page)
        assert violations(page) + faults == []
