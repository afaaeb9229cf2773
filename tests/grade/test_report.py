"""What people read is safe in a browser, says what was tested, and keeps what is typed into it."""

from html.parser import HTMLParser

import pytest
from browsing import INSTALL, chromium, chromium_program
from classroom import HERE, SMALL, WRONG, StandIn, edition

from tools.grade import report
from tools.grade.judge import grade_one
from tools.grade.similar import PUBLISHED, Group
from tools.grade.splice import splice

EVIL = "<script>alert(1)</script>"
BY_NAME = {"small": SMALL}
TAGS = set(
    "html head meta title style body h1 h2 p table tr td code pre ul li small strong details "
    "summary div span".split()
)


def row(student, answers=HERE):
    spliced = splice(edition(answers), SMALL)
    task = {"assignment": SMALL, "cells": spliced.cells}
    result = about(student) | grade_one(task, StandIn()) | {"answers": spliced.answers}
    report.add_by_hand(result, SMALL, {})
    return result


def not_graded(student, reason):
    return about(student, reason) | {"assignment": None, "findings": []}


def about(student, reason=None):
    made = {"submission": student, "student": student, "assignment": "small", "reason": reason}
    return made | {"late": False, "answers": {}, "prose": {}, "by_hand": {}}


class Safe(HTMLParser):
    """Fails on what a page of ours never holds."""

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS, tag
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attributes)


def test_feedback_says_what_was_tested_and_nothing_of_how():
    page = report.feedback_page(row("Ann", HERE | {2: WRONG[2]}), SMALL)
    for words in ("Ann", "Doubles any number.", "passed", "your code raised an error", "xs = ["):
        assert words in page
    assert "randrange" not in page and "student.ask" not in page


def test_pages_hold_nothing_of_a_student_but_text():
    answers = {1: f"print({EVIL!r})", 2: f"raise ValueError({EVIL!r})"}
    rows, pair = [row(EVIL, answers), not_graded(EVIL, EVIL)], Group(1, (EVIL, PUBLISHED), 9, 9)
    _, by_hand = report.by_hand_forms([rows[0]], BY_NAME, {})
    assert EVIL not in by_hand and "&lt;script&gt;" in by_hand
    for page in (
        report.feedback_page(rows[0], SMALL),
        report.feedback_page(rows[1], None),
        report.review_page(rows, BY_NAME, {"small": [pair]}),
    ):
        Safe().feed(page)
        assert EVIL not in page and "&lt;script&gt;" in page


def test_review_lists_what_a_person_should_see():
    rows = [row("Ann"), row("Bob", {1: "end('time')"}), not_graded("Cy", "no notebook")]
    rows[0]["findings"].append({"kind": "cells", "exercise": 2, "text": "it was moved"})
    page = report.review_page(rows, BY_NAME, {"small": [Group(2, ("Ann", "Bob"), 9, 10)]})
    words = ("no notebook", "Bob: small, exercise 1", "9 of 10 lines", "def total", "it was moved")
    places = [page.index(part) for part in words]
    assert places == sorted(places)
    report.review_page([], BY_NAME, {})


def test_what_is_typed_on_the_page_is_kept_and_read_again(tmp_path):
    if chromium_program() is None:
        pytest.skip(f"no Chromium: {INSTALL}")
    key, own = ("Ann", "small", "3"), {"points": "1", "note": "", "mine": "=ask"}
    rows, gone = [row("Ann"), row("Bob")], ("Zoe", "small", "3")
    values = ["Zoe", *gone, "r", "2", "2", "-x"]
    zoe = dict(zip([*report.ABOUT, *report.TYPED], values, strict=True))
    page = tmp_path / "by-hand.html"
    _, form = report.by_hand_forms(rows, BY_NAME, {key: own, gone: zoe})
    page.write_text(form, encoding="utf-8")
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto(page.as_uri())
        tab.locator("input").first.fill("1,5")
        tab.locator("textarea").first.fill('=good "so"')
        tab.reload()
        with tab.expect_download() as saved:
            tab.get_by_role("button").click()
        saved.value.save_as(tmp_path / report.BY_HAND)
    typed = report.read_by_hand(tmp_path)
    assert (typed[key]["points"], typed[key]["note"]) == ("1,5", '=good "so"')
    assert typed[key]["mine"] == "=ask" and typed[gone] == zoe | {"mine": ""}
    assert typed["Bob", "small", "3"]["points"] == ""
