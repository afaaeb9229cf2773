"""Predictions: covered until a reader chooses or asks; by keyboard, on paper, without scripts."""

import shutil
from inspect import signature

import pytest
from browsing import doctor, opened, violations
from bs4 import BeautifulSoup
from helpers import (
    build_site,
    code,
    copy_code,
    copy_kernel,
    display,
    dress,
    keep,
    make_book,
    prose,
    text,
    write,
)

PAGE, OTHER = "notebooks/first.html", "notebooks/second.html"
CELLS = [
    prose("title", "# First\n\nA chapter that asks."),
    code("make", "X = 1"),
    prose(
        "predict-place",
        "**Predict.** Where is `X`?\n\n- on the `cpu`\n- on the first GPU\n- nowhere yet",
    ),
    code("place", "X.device", ["predicted"]),
    code("place-held", "assert X.device\nX"),
    prose("more", "## More\n\nNow without choices."),
    prose("predict-sum", "**Predict.** What is 2 + 2?"),
    code("sum", "print('so:')\n2 + 2", ["predicted"]),
    code("sum-held", "assert 2 + 2 == 4\n4"),
]
PRINTED = {
    "cpu": {"place": [display(text_plain="'here: cpu'")]},
    "simulated": {"place": [display(text_plain="'there: cuda'")]},
}
SAME = {"sum": [text("so:\n"), display(text_plain="4")]}


@pytest.fixture(scope="session")
def book(once):
    """The root of a book whose first chapter asks for two predictions: one has tabs."""

    def make(root):
        make_book(root)
        copy_code(root, "cudasim/src")
        copy_kernel(root, "simulated")
        write(root, "first", *CELLS)
        write(root, "second", prose("title", "# Second\n\nNothing is asked."), code("sum", "1"))
        dress(root)
        for runner, printed in PRINTED.items():
            keep(root, "first", runner, printed | SAME)
            keep(root, "second", runner, {"sum": [display(text_plain="1")]})
        build_site(root)

    return once("book-with-predictions", make)


@pytest.fixture(scope="session")
def asking(book):
    """The folder of its site."""
    return book / "_build" / "html"


STATE = """() => ({
  all: document.querySelector('.prediction-switch button')?.getAttribute('aria-pressed'),
  shown: [...document.querySelectorAll('details.covered')].map(cover => [
    ...cover.querySelectorAll('.cell_output')].some(printed => printed.checkVisibility())),
  asserted: [...document.querySelectorAll('.cell:has(> details.covered) + .cell')].map(
    below => below.checkVisibility()),
  pressed: [...document.querySelectorAll('.prediction button[aria-pressed=true]')].map(
    button => button.textContent),
  said: [...document.querySelectorAll('.chosen')].map(line => line.textContent),
})"""
COVERED = {"all": "false", "shown": [False, False], "pressed": [], "said": ["", ""]}
CHOSEN = COVERED | {
    "shown": [True, False],
    "pressed": ["on the cpu"],
    "said": ["You chose: on the cpu", ""],
}


def state(page):
    """What is in sight; the cell below a cover, which asserts the answer, is when it is open."""
    page.wait_for_timeout(50)  # a cover tells that it was opened a moment later
    found = page.evaluate(STATE)
    assert found.pop("asserted") == found["shown"]
    return found


def choose(page, words):
    page.locator(".prediction button", has_text=words).click()


def test_the_page_has_what_is_asked_in_a_box_and_what_was_printed_under_a_cover(asking):
    page = BeautifulSoup((asking / PAGE).read_text(encoding="utf-8"), "html.parser")
    first, second = page.select("div.prediction")
    assert [item.get_text() for item in first("li")] == [
        *("on the cpu", "on the first GPU", "nowhere yet")
    ]
    assert second.get_text(strip=True) == "Predict.What is 2 + 2?"
    covers = page.select("div.cell > details.covered:not([open])")
    assert [cover["id"] for cover in covers] == ["printed-place", "printed-sum"]
    assert [cover.parent.find_previous_sibling() for cover in covers] == [first, second]
    panels = covers[0].select(".runner-outputs > [role=tabpanel] > .cell_output")
    assert [panel.get_text().strip() for panel in panels] == ["'there: cuda'", "'here: cpu'"]
    assert covers[1].get_text().split()[-2:] == ["so:", "4"]
    assert len(page.select(".prediction-switch")) == 1


def test_a_page_without_predictions_loads_nothing_of_theirs(asking):
    assert "predictions" not in (asking / OTHER).read_text(encoding="utf-8")
    for file in ("predictions.js", "predictions.css"):
        assert file in (asking / PAGE).read_text(encoding="utf-8")


def test_a_choice_uncovers_its_output_and_is_kept_on_the_way_to_the_next_page_and_back(
    browser, asking
):
    with opened(browser, asking, PAGE) as (page, faults):
        assert state(page) == COVERED
        choose(page, "on the cpu")
        assert state(page) == CHOSEN
        page.get_by_text("nowhere yet").dispatch_event("click")  # too late: the answer is in sight
        assert state(page) == CHOSEN
        page.locator("[role=tab][data-runner=cpu]").click()
        assert state(page) == CHOSEN
        page.reload(wait_until="networkidle")
        assert state(page) == CHOSEN
        page.goto(page.url.replace(PAGE, OTHER), wait_until="networkidle")
        page.go_back(wait_until="networkidle")
        assert state(page) == CHOSEN
        assert faults == []


def test_who_does_not_choose_may_see_and_cover_again(browser, asking):
    with opened(browser, asking, PAGE) as (page, faults):
        last = page.locator("details.covered > summary").last
        last.click()
        assert state(page) == COVERED | {"shown": [False, True]}
        page.reload(wait_until="networkidle")
        assert state(page) == COVERED | {"shown": [False, True]}
        last.click()
        assert state(page) == COVERED
        choose(page, "on the cpu")
        page.locator("details.covered > summary").first.click()
        assert state(page) == COVERED  # covered again, and the choice is open again
        choose(page, "nowhere yet")
        assert state(page)["pressed"] == ["nowhere yet"]
        assert faults == []


def test_one_switch_shows_everything_and_what_was_chosen_outlasts_it(browser, asking):
    everything = {"all": "true", "shown": [True, True]}
    with opened(browser, asking, PAGE) as (page, faults):
        switch = page.get_by_role("button", name="Show everything")
        switch.click()
        assert state(page) == COVERED | everything
        page.reload(wait_until="networkidle")
        assert state(page) == COVERED | everything
        switch.click()
        assert state(page) == COVERED
        choose(page, "on the cpu")
        switch.click()
        assert state(page) == CHOSEN | everything
        switch.click()
        assert state(page) == CHOSEN
        assert faults == []


def focus_order(page, steps=200):
    """What Tab stops at among the predictions, from the top of the page on."""
    found = []
    for _ in range(steps):
        page.keyboard.press("Tab")
        found.append(
            page.evaluate(
                """() => {
                  const at = document.activeElement;
                  return at.closest('.prediction, .prediction-switch, details.covered')
                    ? [at.innerText.trim(), getComputedStyle(at).outlineStyle] : null;
                }"""
            )
        )
    return [each for each in found if each]


STOPS = [
    *("Show everything", "on the cpu", "on the first GPU", "nowhere yet"),
    *["Show what it printed"] * 2,
]


def test_all_of_it_is_reached_and_worked_by_keyboard(browser, asking):
    with opened(browser, asking, PAGE) as (page, faults):
        found = focus_order(page, 60)[: len(STOPS)]
        assert found == [[stop, "solid"] for stop in STOPS]
        for key in ("Enter", "Space"):
            button = page.locator(".prediction button").first
            button.focus()
            page.keyboard.press(key)
            assert state(page) == CHOSEN
            assert button.evaluate("button => button === document.activeElement")
            cover = page.locator("details.covered > summary").first
            cover.focus()
            page.keyboard.press(key)
            assert state(page) == COVERED
            page.keyboard.press(key)
            assert state(page) == COVERED | {"shown": [True, False]}
            page.keyboard.press(key)
        assert faults == []


def test_screen_readers_are_told_of_the_question_its_choices_and_what_was_chosen(browser, asking):
    with opened(browser, asking, PAGE) as (page, _):
        group = page.get_by_role("group", name="Predict. Where is X?")
        names = [button.inner_text() for button in group.get_by_role("button").all()]
        assert names == STOPS[1:4]
        said = page.get_by_role("status").filter(has_text="You chose: on the cpu")
        assert said.count() == 0
        choose(page, "on the cpu")
        assert said.count() == 1
        assert group.get_by_role("button", pressed=True).inner_text() == "on the cpu"
        assert group.get_by_role("button", disabled=True).count() == 3


def test_on_paper_all_is_seen_chosen_or_not(browser, asking):
    with opened(browser, asking, PAGE) as (page, faults):
        page.emulate_media(media="print")
        assert state(page)["shown"] == [True, True]
        for words in ("here: cpu", "there: cuda", "so:", "on the first GPU"):
            assert page.get_by_text(words, exact=False).first.evaluate("e => e.checkVisibility()")
        assert not page.get_by_text("Show everything").is_visible()
        assert not page.get_by_text("Show what it printed").first.is_visible()
        assert faults == []


def test_without_scripts_a_native_disclosure_covers_and_nothing_does_nothing(browser, asking):
    with opened(browser, asking, PAGE, java_script_enabled=False) as (page, faults):
        assert page.locator(".prediction li").all_inner_texts() == STOPS[1:4]
        assert page.locator(".prediction button").count() == 0
        assert not page.get_by_text("Show everything").is_visible()
        for cover in page.locator("details.covered").all():
            printed = cover.locator(".cell_output").first
            below = cover.locator("xpath=../following-sibling::div[1]")
            assert not printed.is_visible() and not below.is_visible()
            cover.locator("summary").click()
            assert printed.is_visible() and below.is_visible()
        assert faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_covered_chosen_or_shown(browser, asking, scheme, width):
    with opened(browser, asking, PAGE, width=width, color_scheme=scheme) as (page, faults):
        page.add_style_tag(content="*, *::before { transition: none !important }")
        assert violations(page) == []
        choose(page, "on the cpu")
        assert violations(page) == []
        page.get_by_role("button", name="Show everything").click()
        assert violations(page) + faults == []


def test_choices_and_covers_are_large_enough_for_a_finger(browser, asking):
    with opened(browser, asking, PAGE, width=360) as (page, _):
        targets = page.locator(".prediction button, details.covered > summary").all()
        assert len(targets) == 5
        assert [each for each in targets if each.bounding_box()["height"] < 44] == []


def places(page):
    found = page.locator(".prediction, .prediction li, .prediction li > *, details.covered").all()
    return [box.bounding_box() for box in found]


STARTED = '"DOMContentLoaded"'


def test_nothing_moves_when_the_script_makes_buttons_of_the_choices(
    browser, asking, tmp_path_factory
):
    waiting = shutil.copytree(asking, tmp_path_factory.mktemp("waiting") / "site")
    doctor(waiting, "_static/predictions.js", STARTED, '"never"')
    with opened(browser, waiting, PAGE) as (page, _):
        before = places(page)
        assert len(before) == 10 and page.locator(".prediction button").count() == 0
    with opened(browser, asking, PAGE) as (page, _):
        assert page.locator(".prediction button").count() == 3
        assert places(page) == before


# Each of these is noticed by one of the tests above.
BREAKS = [
    (test_a_choice_uncovers_its_output_and_is_kept_on_the_way_to_the_next_page_and_back, change)
    for change in [
        ("_static/predictions.js", "if (cover.open) return;", ""),
        ("_static/predictions.js", "sessionStorage.setItem", "void "),
        ("_static/predictions.js", "cover.open = ", "void "),
    ]
] + [
    (
        test_who_does_not_choose_may_see_and_cover_again,
        ("_static/predictions.js", "if (!cover.open) keep(name, undefined);\n      else ", ""),
    ),
    (
        test_one_switch_shows_everything_and_what_was_chosen_outlasts_it,
        ("_static/predictions.js", "if (!all() && kept", "if (kept"),
    ),
    (
        test_all_of_it_is_reached_and_worked_by_keyboard,
        ("_static/predictions.css", "outline: 3px solid", "outline: none; --x:"),
    ),
    (
        test_all_of_it_is_reached_and_worked_by_keyboard,
        (PAGE, "<summary><span", '<summary tabindex="-1"><span'),
    ),
    (
        test_screen_readers_are_told_of_the_question_its_choices_and_what_was_chosen,
        (PAGE, ' role="status"', ""),
    ),
    (
        test_on_paper_all_is_seen_chosen_or_not,
        ("_static/predictions.css", "content-visibility", "x"),
    ),
    (
        test_on_paper_all_is_seen_chosen_or_not,
        ("_static/predictions.css", "@media screen {", "@media all {"),
    ),
    (
        test_a_choice_uncovers_its_output_and_is_kept_on_the_way_to_the_next_page_and_back,
        ("_static/predictions.css", "+ .cell {", "+ .never {"),
    ),
    (
        test_without_scripts_a_native_disclosure_covers_and_nothing_does_nothing,
        ("_static/predictions.css", "display: none; /* without", "/* without"),
    ),
    (
        test_choices_and_covers_are_large_enough_for_a_finger,
        ("_static/predictions.css", "padding: 0.75rem;", "padding: 0;"),
    ),
    (
        test_nothing_moves_when_the_script_makes_buttons_of_the_choices,
        ("_static/predictions.css", "li > * {", "li > button {"),
    ),
]


@pytest.mark.parametrize(("test", "change"), BREAKS, ids=lambda each: str(each)[:40])
def test_a_page_that_does_not_work_is_noticed(browser, asking, tmp_path, request, test, change):
    broken = shutil.copytree(asking, tmp_path / "site")
    doctor(broken, *change)
    more = {}
    if "tmp_path_factory" in signature(test).parameters:
        more = {"tmp_path_factory": request.getfixturevalue("tmp_path_factory")}
    with pytest.raises((AssertionError, TimeoutError)):
        test(browser, broken, **more)
