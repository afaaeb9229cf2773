"""Predictions, folds, tabs and pictures in the hands of a reader: mouse, keyboard, paper."""

from browsing import NARROW, WIDE, opened, script
from faults import layout_faults, look, shift_faults, violations

FIRST, SECOND = "notebooks/first.html", "notebooks/second.html"

# Predictions: covered until a reader chooses or asks.

COVERED = {
    "all": "false",
    "outputs": [False, False],
    "pressed": [],
    "verdicts": ["", ""],
}
CHOSEN = {
    "all": "false",
    "outputs": [True, False],
    "pressed": ["on the cpu"],
    "verdicts": ["No. Right is: on the first GPU", ""],
}


def state(page):
    """Return what is in sight of the predictions; answers in words are as outputs are."""
    # A cover tells that it was opened a moment later.
    page.wait_for_timeout(50)
    state = page.evaluate(script("predictions"))
    assert state.pop("answers") == state["outputs"]
    return state


def choose(page, words):
    page.locator(".prediction button", has_text=words).click()


def covers(page):
    return page.locator("details.covered > summary")


def test_a_choice_uncovers_its_output_and_is_kept(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        assert state(page) == COVERED
        choose(page, "on the cpu")
        # This comes too late: the answer is in sight.
        page.get_by_text("nowhere yet").dispatch_event("click")
        page.goto(page.url.replace(FIRST, SECOND))
        page.go_back()
        assert state(page) == CHOSEN

        # Covered again, the choice is open again.
        covers(page).first.click()
        assert state(page) == COVERED
        choose(page, "on the first GPU")
        assert state(page)["verdicts"][0] == "Right: on the first GPU"
        assert faults == []


def test_a_reader_who_does_not_choose_sees_one_answer_or_all(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        choose(page, "on the cpu")
        switch = page.get_by_role("button", name="Show answers")
        switch.click()
        page.reload()
        assert state(page) == CHOSEN | {"all": "true", "outputs": [True, True]}
        # What was chosen outlasts the switch.
        switch.click()
        assert state(page) == CHOSEN

        covers(page).first.click()
        covers(page).last.click()
        page.reload()
        assert state(page) == COVERED | {"outputs": [False, True]}
        covers(page).last.click()
        assert state(page) == COVERED
        assert faults == []


CHOICES = ["on the cpu", "on the first GPU", "nowhere yet"]
STOPS = ["Show answers", "Checks", *CHOICES, "Show the answer", "Show the answer"]


def test_predictions_are_reached_by_keyboard(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, width=NARROW) as (page, faults):
        stops = []
        while len(stops) < len(STOPS):
            page.keyboard.press("Tab")
            stop = page.evaluate(script("stop"))
            if stop is not None:
                stops.append(stop)
        assert stops == [[name, "solid"] for name in STOPS]

        targets = page.locator(".prediction button, details.covered > summary").all()
        assert len(targets) == 5
        # A finger meets what is as high.
        for target in targets:
            assert target.bounding_box()["height"] >= 44
        assert faults == []


def test_code_that_is_broken_begins_right_of_its_indentation(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, width=NARROW) as (page, faults):
        line = page.locator("pre .hang", has_text="no telephone")
        first, *broken_off = line.evaluate(script("lefts"))
        assert len(broken_off) > 0
        assert min(broken_off) > first
        assert faults == []
    with opened(browser, tiny_site, FIRST, width=WIDE) as (page, faults):
        line = page.locator("pre .hang", has_text="no telephone")
        assert len(line.evaluate(script("lefts"))) == 1


def test_a_choice_by_keyboard_is_told_to_screen_readers(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, width=NARROW) as (page, faults):
        group = page.get_by_role("group", name="Predict. Where is X?")
        button = group.get_by_role("button").first
        verdict = "No. Right is: on the first GPU"
        status = page.get_by_role("status").filter(has_text=verdict)
        button.focus()
        page.keyboard.press("Enter")
        assert state(page) == CHOSEN
        assert status.count() == 1
        assert group.get_by_role("button", pressed=True).inner_text() == "on the cpu"
        assert group.get_by_role("button", disabled=True).count() == 3
        assert button.evaluate("button => button === document.activeElement")

        covers(page).first.focus()
        page.keyboard.press("Space")
        assert state(page) == COVERED
        assert status.count() == 0
        assert faults == []


def test_predictions_on_paper_and_in_both_schemes(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        page.emulate_media(media="print")
        assert state(page)["outputs"] == [True, True]
        for words in ("Show answers", "Show the answer"):
            assert not page.get_by_text(words).first.is_visible()
        page.emulate_media(media="screen")
        choose(page, "on the cpu")
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            look(page, width, scheme)
            assert violations(page) + layout_faults(page) + faults == []


def test_the_script_of_predictions_moves_nothing(browser, tiny_site):
    path = tiny_site / "_static" / "predictions.js"
    idle = path.read_text("utf-8").replace('"DOMContentLoaded"', '"never"')
    with opened(browser, tiny_site, FIRST) as (page, faults):
        places = page.evaluate(script("places"))
        assert len(places) == 10
        page.route("**/predictions.js*", lambda route: route.fulfill(body=idle))
        page.reload()
        assert page.locator(".prediction button").count() == 0
        assert page.evaluate(script("places")) == places
        assert faults == []


def test_without_scripts_predictions_are_disclosures(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, java_script_enabled=False) as (page, faults):
        assert page.locator(".prediction li").all_inner_texts() == CHOICES
        assert not page.get_by_text("Show answers").is_visible()
        all_covers = page.locator("details.covered").all()
        answers = page.locator(".answer").all()
        for cover, answer in zip(all_covers, answers, strict=True):
            output = cover.locator(".cell_output").first
            assert not output.is_visible()
            assert not answer.is_visible()
            cover.locator("> summary").click()
            assert output.is_visible()
            assert answer.is_visible()
        assert faults == []


def test_a_cover_reaches_to_the_next_heading(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        below = page.get_by_text("Text below tells it, too.")
        code = page.get_by_text("X + 1")
        assert not below.is_visible()
        assert not code.is_visible()
        assert page.get_by_role("heading", name="More").is_visible()
        choose(page, "on the first GPU")
        assert below.is_visible()
        assert code.is_visible()
        assert faults == []


# Checks: out of sight until a reader asks for them.


def test_checks_are_shown_to_a_reader_who_asks_for_them_on_every_page(
    browser, tiny_site
):
    with opened(browser, tiny_site, FIRST, uncovered=True) as (page, faults):
        check = page.get_by_text("assert X.device")
        switch = page.get_by_role("button", name="Checks")
        assert not check.is_visible()
        assert not page.locator("details.checks > summary").first.is_visible()
        switch.click()
        assert check.is_visible()
        page.goto(page.url.replace(FIRST, SECOND))
        page.goto(page.url.replace(SECOND, FIRST))
        assert check.is_visible()
        assert shift_faults(page) + violations(page) == []
        page.emulate_media(media="print")
        assert not check.is_visible()
        page.emulate_media(media="screen")
        switch.click()
        assert not check.is_visible()
        assert faults == []


def test_without_scripts_checks_are_folds(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, java_script_enabled=False) as (page, faults):
        fold = page.locator("details.checks").last
        assert not fold.get_by_text("assert add").is_visible()
        fold.locator("> summary").click()
        assert fold.get_by_text("assert add").is_visible()
        assert faults == []


# Folds: what is not on the path.

FOLDS = ["Run this chapter: links and setup", "Checks", "Helper code", "Checks"]


def test_folds_are_closed_until_a_link_leads_into_them(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        start = page.url
        assert page.locator("details.machinery > summary").all_text_contents() == FOLDS
        deep = page.get_by_text("Still off it")
        for anchor in ("", "#end"):
            page.goto(start + anchor)
            page.reload()
            assert not deep.is_visible(), anchor
            assert shift_faults(page) == [], anchor
        for anchor in ("#below", "#deeper-sums"):
            page.goto(start + anchor)
            page.reload()
            assert deep.is_visible(), anchor

        page.locator("details.deeper > summary").click(position={"x": 3, "y": 9})
        assert not deep.is_visible()
        page.get_by_role("link", name="Deeper: sums").click()
        assert deep.is_visible()
        assert page.get_by_role("heading", name="Deeper: sums").is_visible()
        assert faults == []


def test_folds_open_for_a_search_and_on_paper(browser, tiny_site):
    with opened(browser, tiny_site, FIRST) as (page, faults):
        deep = page.get_by_text("Still off it")
        # The theme's search keeps its words here, for the page that it leads to.
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


def test_without_scripts_folds_are_open(browser, tiny_site):
    with opened(browser, tiny_site, FIRST, java_script_enabled=False) as (page, faults):
        assert page.get_by_text("Still off it").is_visible()
        assert faults == []


# Tabs: the outputs of one runner at a time.

RUNNERS = ["simulated", "cpu", "h100"]  # on the second page


def chosen_runner(page):
    """Return the runner whose tab is chosen, and whose panel alone is seen, in every set."""
    chosen = set()
    for outputs in page.evaluate(script("tabs")):
        [runner] = [tab["runner"] for tab in outputs["tabs"] if tab["chosen"]]
        for tab in outputs["tabs"]:
            assert tab["seen"]
            assert tab["stop"] == (tab["runner"] == runner)
        for panel in outputs["panels"]:
            assert panel["seen"] == (panel["runner"] == runner)
            assert not panel["named"]
        chosen.add(runner)
    [runner] = chosen
    return runner


def is_stacked(page):
    """Return whether, for tabs, all panels are seen, each under the name of its runner."""
    for outputs in page.evaluate(script("tabs")):
        if any(tab["seen"] for tab in outputs["tabs"]):
            return False
        for panel in outputs["panels"]:
            if not panel["seen"] or not panel["named"]:
                return False
    return True


def tab_of(page, runner, number=-1):
    return page.locator(f".runner-outputs [role=tab][data-runner={runner}]").nth(number)


def test_a_click_switches_every_set_and_the_choice_is_kept(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, uncovered=True) as (page, faults):
        # This is the default.
        assert chosen_runner(page) == "simulated"
        tab_of(page, "cpu").click()
        assert chosen_runner(page) == "cpu"
        page.goto(page.url.replace(SECOND, FIRST))
        assert chosen_runner(page) == "cpu"

        other_window = page.context.new_page()
        other_window.goto(page.url.replace(FIRST, SECOND))
        tab_of(other_window, "simulated").click()
        page.wait_for_selector(".runner-output.shown[data-runner=simulated]")
        assert chosen_runner(page) == "simulated"
        # The first page does not have this runner.
        tab_of(other_window, "h100").click()
        page.reload()
        assert chosen_runner(page) == "simulated"
        assert faults == []


def focused_runner(page):
    return page.evaluate("document.activeElement.dataset.runner")


def test_tabs_are_switched_by_keyboard(browser, tiny_site):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        address = page.url
        # The whole set is one stop.
        tab_of(page, "simulated", 0).focus()
        page.keyboard.press("Shift+Tab")
        assert focused_runner(page) is None
        page.keyboard.press("Tab")
        for key, runner in [
            ("ArrowRight", "cpu"),
            ("ArrowLeft", "simulated"),
            ("ArrowLeft", "h100"),  # around the end
            ("Home", "simulated"),
            ("End", "h100"),
        ]:
            page.keyboard.press(key)
            assert focused_runner(page) == runner, key
            assert chosen_runner(page) == runner, key
        page.keyboard.press("Tab")
        assert focused_runner(page) is None
        # The theme would turn the page with an arrow key.
        assert page.url == address
        assert faults == []


def test_tabs_are_told_to_screen_readers(browser, tiny_site):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        lists = page.get_by_role("tablist", name="Outputs by runner")
        assert lists.count() == 2
        name = lists.last.get_by_role("tab", selected=True).inner_text()
        assert page.get_by_role("tabpanel", name=name, exact=True).count() == 2
        assert faults == []


# Outputs above a tab that take more room for one runner than for the other. Not every
# browser anchors what is seen by itself; the script has to do without.
UNEQUAL_OUTPUTS = """
[data-runner=simulated].runner-output { min-height: 900px }
html { overflow-anchor: none }
body { padding-bottom: 900px }
"""


def test_the_tab_that_is_clicked_keeps_its_place_on_the_screen(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, width=900, height=500) as (page, _):
        page.add_style_tag(content=UNEQUAL_OUTPUTS)
        for runner in ("cpu", "simulated"):
            tab = tab_of(page, runner)
            tab.scroll_into_view_if_needed()
            place = tab.bounding_box()["y"]
            scrolled = page.evaluate("scrollY")
            tab.click()
            assert abs(tab.bounding_box()["y"] - place) <= 1
            # Else there was nothing to keep.
            assert abs(page.evaluate("scrollY") - scrolled) > 100


def test_on_paper_all_outputs_stand_under_their_names(browser, tiny_site):
    with opened(browser, tiny_site, SECOND) as (page, faults):
        assert not is_stacked(page)
        page.emulate_media(media="print")
        assert is_stacked(page)
        assert faults == []


def test_without_scripts_all_outputs_stand_under_their_names(browser, tiny_site):
    options = {"java_script_enabled": False}
    with opened(browser, tiny_site, SECOND, **options) as (page, faults):
        assert is_stacked(page)
        for figure in page.locator(".timeline").all():
            assert figure.locator(".timeline-view").is_visible()
            assert not figure.locator(".timeline-tools").is_visible()
            figure.locator("summary").click()
            assert figure.locator("table").is_visible()
        assert faults == []


# Pictures.


def test_a_picture_is_enlarged_by_a_tap_or_a_key_until_escape(browser, tiny_site):
    with opened(browser, tiny_site, SECOND, width=NARROW) as (page, faults):
        picture = page.locator(".bd-article img:visible").first
        dialog = page.get_by_role("dialog")
        small = picture.bounding_box()["width"]
        for enlarge in (picture.click, lambda: picture.press("Enter")):
            enlarge()
            large = dialog.get_by_role("img").bounding_box()["width"]
            assert large > 3 * small
            assert violations(page) + faults == []
            page.keyboard.press("Escape")
            assert dialog.count() == 0
            assert picture.evaluate("picture => picture === document.activeElement")
