"""Questions and solutions in the browser: opened by keyboard, offline, by finger, on paper."""

import pytest
from browsing import opened, opened_text
from helpers import LESSONS

ACTIVE = """() => {
  const all = [...document.querySelectorAll('details.choice > summary')];
  return [all.indexOf(document.activeElement), document.activeElement === document.body];
}"""
SEEN = "choice => [...choice.querySelectorAll(':scope > p')].some(p => p.checkVisibility())"
FOLDS = "details:is(.choice, .hint, .solution, .wrong)"
OUTLINE = "summary => getComputedStyle(summary).outlineStyle"


def keyboard_faults(page):
    """Tab through the page, press Enter on every choice: what is not reached, seen or opened."""
    details = page.locator("details.choice")
    waiting, faults = set(range(details.count())), []
    for _ in range(1000):
        page.keyboard.press("Tab")
        place, left = page.evaluate(ACTIVE)
        if left or not waiting:
            break
        if place not in waiting:
            continue
        waiting.remove(place)
        one = details.nth(place)
        if one.locator("summary").evaluate(OUTLINE) == "none":
            faults.append(f"choice {place}: focus not seen")
        if one.evaluate(SEEN):
            faults.append(f"choice {place}: feedback seen before it is asked for")
        page.keyboard.press("Enter")
        if not one.evaluate(SEEN):
            faults.append(f"choice {place}: Enter does not show the feedback")
    return faults + [f"choice {place}: not reached by Tab" for place in sorted(waiting)]


def small_targets(page):
    """Choices and other folds too low for a finger: below 44 pixels."""
    found = page.locator(f"{FOLDS} > summary").all()
    heights = [summary.bounding_box()["height"] for summary in found]
    return [height for height in heights if height < 44]


def unprinted(page):
    """Choices, hints and solutions that paper would show without what is folded in them."""
    page.emulate_media(media="print")
    folded = page.locator(f"{FOLDS} > :not(summary)")
    return [
        part.inner_text() for part in folded.all() if not part.evaluate("e => e.checkVisibility()")
    ]


@pytest.mark.parametrize("name", LESSONS)
def test_choices_open_by_keyboard_with_the_network_off(browser, site, name):
    with opened(browser, site, f"notebooks/{name}.html") as (page, faults):
        page.context.set_offline(True)
        assert page.locator("details.choice").count() >= 4 * 3
        assert keyboard_faults(page) == []
        pictures = ("fails: ", "console: Failed to load")  # they are fetched when they come near
        assert [fault for fault in faults if not fault.startswith(pictures)] == []


@pytest.mark.parametrize("name", LESSONS)
def test_choices_are_large_enough_for_a_finger_and_shown_on_paper(browser, site, name):
    with opened(browser, site, f"notebooks/{name}.html", width=360) as (page, faults):
        assert small_targets(page) + unprinted(page) + faults == []


SOUND = '<details class="choice"><summary>A</summary><p>No. This is why.</p></details>'


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("<summary>", '<summary tabindex="-1">', "not reached"),
        ("<summary>", '<summary style="outline: none">', "focus not seen"),
        ("<summary>", '<summary onclick="return false">', "does not show"),
        ("<p>", "<p hidden>", "does not show"),
        ("<details", "<details open", "before it is asked for"),
    ],
)
def test_a_choice_that_keys_do_not_open_is_noticed(browser, tmp_path, old, new, fault):
    with opened_text(browser, tmp_path, SOUND.replace(old, new)) as (page, _):
        assert any(fault in found for found in keyboard_faults(page))


@pytest.mark.parametrize("kind", ["choice", "hint", "solution", "wrong"])
def test_a_low_fold_and_one_that_paper_hides_are_noticed(browser, tmp_path, kind):
    """As they are without our style sheet; keys do open it."""
    with opened_text(browser, tmp_path, SOUND.replace("choice", kind)) as (page, _):
        assert keyboard_faults(page) == []
        page.reload()
        assert small_targets(page) != []
        assert unprinted(page) != []
