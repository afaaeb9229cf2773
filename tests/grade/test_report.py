"""What people read: the same bytes every time, safe in a browser and in a spreadsheet."""

from html.parser import HTMLParser

import pytest
from browsing import INSTALL, chromium, chromium_program
from classroom import RIGHT, SMALL, WRONG, StandIn, edition
from helpers import refused as is_refused

from tools.grade import report
from tools.grade.grade import grade_one, refused
from tools.grade.report import BY_HAND, add_by_hand, read_by_hand
from tools.grade.similar import PUBLISHED, Group
from tools.grade.splice import splice
from tools.grade.tables import read_table

EVIL = "<script>alert(1)</script>"
BY_NAME = {"small": SMALL}


def row(student, answers=RIGHT, typed=None, late=False):
    spliced = splice(edition(answers), SMALL)
    task = {"assignment": SMALL, "submission": student, "cells": spliced.cells}
    result = grade_one(task | {"student": student}, StandIn())
    written = spliced.answers
    result |= {"late": late, "answers": written, "prose": {}, "by_hand": {"3": {"of": 2}}}
    add_by_hand(result, typed or {})
    return result


def not_graded(student, reason):
    more = {"late": False, "answers": {}, "prose": {}, "by_hand": {}}
    return refused(student, student, reason) | more


class Safe(HTMLParser):
    """Fails on what a page of ours never holds."""

    def handle_starttag(self, tag, attributes):
        assert tag in {
            *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr"),
            *(
                "td",
                "code",
                "pre",
                "ul",
                "li",
                "small",
                "strong",
                "details",
                "summary",
                "div",
                "span",
            ),
        }, tag
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attributes)


def test_feedback_says_what_was_tested_what_held_and_what_it_promises():
    page = report.feedback_page(row("Ann", RIGHT | {2: WRONG[2]}), SMALL)
    for words in ("Ann", "Doubles any number.", "passed", "the result is not the one asked for"):
        assert words in page
    assert "your code raised an error" in page and "not read yet" in page
    assert (
        "2 more are still to be read by a person, in exercise 3" in page
        and "Asked with xs = [" in page
    )
    assert "Passing says that the results were right on those inputs" in page
    assert "Content-Security-Policy" in page and len(page) < 6000
    assert "randrange" not in page and "student.ask" not in page


def test_pages_hold_nothing_of_a_student_but_text():
    answers = {1: f"print({EVIL!r})", 2: f"raise ValueError({EVIL!r})"}
    rows = [row(EVIL, answers), not_graded(EVIL, EVIL)]
    pair = Group(1, (EVIL, PUBLISHED), 9, 9)
    _, by_hand = report.by_hand_forms([rows[0]], BY_NAME, {})
    assert EVIL not in by_hand and "&lt;script&gt;" in by_hand
    for page in (
        report.feedback_page(rows[0], SMALL),
        report.feedback_page(rows[1], None),
        report.review_page(rows, BY_NAME, {"small": [pair]}),
    ):
        Safe().feed(page)
        assert EVIL not in page and "&lt;script&gt;" in page


def test_grades_have_a_row_for_each_student():
    rows = [row("=cmd()", WRONG), row("Ann", late=True), not_graded("Zoe", "holds no exercise")]
    table = read_table(report.grades_table(rows, BY_NAME))
    assert [line["student"] for line in table] == ["=cmd()", "Ann", "Zoe"]
    assert "'=cmd()" in report.grades_table(rows, BY_NAME)
    assert table[1]["small 1 (of 3)"] == "3" and table[1]["small 3 by hand (of 2)"] == ""
    assert table[1]["total"] == str(rows[1]["points"]) and table[1]["of"] == "11"
    assert table[1]["late"] == "late"
    assert table[2]["total"] == "" and table[2]["not graded because"] == "holds no exercise"


def test_points_by_hand_that_cannot_be(tmp_path):
    text, _ = report.by_hand_forms([row("Ann")], BY_NAME, {})
    for said in ("many", "3", "-1", "nan"):
        (tmp_path / BY_HAND).write_text(text.replace("Reads well.,2,", f"Reads well.,2,{said}"))
        with is_refused(f"{BY_HAND}: line 2 gives '{said}' points; write a number from 0 to 2"):
            read_by_hand(tmp_path)
    (tmp_path / BY_HAND).write_text("a;b\n1;2\n")
    with is_refused(BY_HAND, "save it with commas"):
        read_by_hand(tmp_path)


def test_what_is_typed_on_the_page_is_kept_and_read_again(tmp_path):
    if chromium_program() is None:
        pytest.skip(f"no Chromium: {INSTALL}")
    key, own = ("Ann", "small", "3"), {"points": "1", "note": "", "mine": "=ask"}
    rows, gone = [row("Ann"), row("Bob")], ("Zoe", "small", "3")
    zoe = dict(
        zip([*report.ABOUT, *report.TYPED], ["Zoe", *gone, "r", "2", "2", "-x"], strict=True)
    )
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
        saved.value.save_as(tmp_path / BY_HAND)
    typed = read_by_hand(tmp_path)
    assert (typed[key]["points"], typed[key]["note"]) == ("1,5", '=good "so"')
    assert typed[key]["mine"] == "=ask" and typed[gone] == zoe | {"mine": ""}
    assert typed["Bob", "small", "3"]["points"] == ""


def test_points_of_a_table_that_is_lost_come_from_the_results(tmp_path):
    key = ("Ann", "small", "3")
    found = read_by_hand(tmp_path, [row("Ann", typed={key: {"points": "1,5", "note": "so"}})])
    assert found == {key: {"points": "1.5", "note": "so"}}


def test_review_lists_what_a_person_should_see():
    rows = [row("Ann"), row("Bob", {1: "end('time')"}), not_graded("Cy", "no notebook")]
    rows[0]["findings"].append({"kind": "lint", "exercise": 2, "text": "imports gc"})
    page = report.review_page(rows, BY_NAME, {"small": [Group(2, ("Ann", "Bob"), 9, 10)]})
    headings = ("Not graded: 1", "Ended their session: 1", "Nearly the same", "no use for: 1")
    places = [page.index(words) for words in headings]
    assert places == sorted(places)
    assert "9 of 10 lines are the same" in page and "def total" in page
    assert "There is nothing." in report.review_page([], BY_NAME, {})
