"""Points by hand, typed while grading runs, in any spreadsheet and by several people."""

import csv
import io
import json
import sys
from dataclasses import replace
from datetime import datetime

import pytest
from classroom import (
    ANOTHER_HAND_IN,
    ANSWERS,
    SMALL,
    contents,
    csv_text,
    edition,
    insert_cell,
    rows_by_student,
    small,
    table,
    totals,
)
from helpers import refused

from coursework.exercises.tasks import LateRule
from coursework.grade import report
from coursework.grade.by_hand import AGAIN, BY_HAND
from tools.errors import BookError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {"ann": ANSWERS, "bob": ANSWERS, "cy": {}}
# The other students of the class hand nothing new in.
CY_ANEW = CLASS | {"cy": ANSWERS}


@pytest.fixture
def graded(grade, out):
    """The folder in which the class was graded once."""
    grade(CLASS)
    return out


def type_points(
    out, entries, name=BY_HAND, separator=",", encoding="utf-8", above_head=""
):
    """Save the table, or a copy of it, with points and a note for some students."""
    rows = table(out, BY_HAND)
    for row in rows:
        if row["student"] in entries:
            row["points"], row["note"] = entries[row["student"]]
    text = above_head + csv_text(rows, separator)
    (out / name).write_bytes(text.encode(encoding))


def by_hand(out):
    """Return points and note by student."""
    rows = table(out, BY_HAND)
    return {row["student"]: (row["points"], row["note"]) for row in rows}


def save_meanwhile(grade, monkeypatch, save):
    """Let a person save the table once while the submissions are asked."""
    engine = grade.engine

    def engine_that_saves(tasks):
        save()
        yield from engine(tasks)

    monkeypatch.setattr(grade, "engine", engine_that_saves)


# --- saved while grading runs


def test_points_typed_while_grading_runs_count(grade, graded, monkeypatch, capsys):
    type_points(graded, {"ann": ("2", "")})

    with monkeypatch.context() as patch:
        bob = {"bob": ("1", "fine")}
        save_meanwhile(grade, patch, lambda: type_points(graded, bob))
        grade({"cy": ANSWERS})

    assert totals(graded) == {"ann": "11", "bob": "10", "cy": "9"}
    assert by_hand(graded)["bob"] == ("1", "fine")
    # As bob was not asked again.
    assert "what you typed stays" not in capsys.readouterr().out


def remove_row(out, student):
    lines = (out / BY_HAND).read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(student)]
    assert len(kept) == len(lines) - 1
    (out / BY_HAND).write_text("".join(kept), encoding="utf-8")


def test_a_row_lost_while_grading_runs_comes_back(grade, graded, monkeypatch):
    type_points(graded, {"ann": ("2", "")})
    save_meanwhile(grade, monkeypatch, lambda: remove_row(graded, "ann"))

    grade({"ann": ANOTHER_HAND_IN})

    assert by_hand(graded)["ann"] == ("2", AGAIN)


def test_points_saved_in_the_moment_of_writing_count(grade, graded, monkeypatch):
    make_forms = report.by_hand_forms
    is_saved = False

    def slow_forms(*arguments):
        nonlocal is_saved
        forms = make_forms(*arguments)
        if not is_saved:
            type_points(graded, {"bob": ("1", "fine")})
            is_saved = True
        return forms

    monkeypatch.setattr(report, "by_hand_forms", slow_forms)
    grade(CLASS)

    assert by_hand(graded)["bob"] == ("1", "fine")
    assert totals(graded)["bob"] == "10"


def test_a_row_that_person_and_run_change_keeps_both(
    grade, graded, monkeypatch, capsys
):
    type_points(graded, {"ann": ("2", "")})
    grade(CLASS)
    before = (graded / BY_HAND).read_bytes()

    def save():
        assert by_hand(graded)["ann"] == ("2", AGAIN)
        # The person had opened the table before grading began.
        (graded / BY_HAND).write_bytes(before)
        type_points(graded, {"ann": ("1", "so-so"), "bob": ("0", "")})

    save_meanwhile(grade, monkeypatch, save)
    grade({"ann": ANOTHER_HAND_IN, "bob": ANOTHER_HAND_IN})

    assert by_hand(graded)["ann"] == ("1", f"so-so; {AGAIN}")
    # These points were typed for what bob had handed in before.
    assert by_hand(graded)["bob"] == ("0", AGAIN)
    printed = capsys.readouterr().out.splitlines()
    ann, bob = [line for line in printed if AGAIN in line]
    assert "ann, small exercise 3" in ann
    assert "what you typed stays" in ann
    assert "bob, small exercise 3" in bob
    assert "what you typed stays" in bob


def test_a_table_that_cannot_be_merged_is_kept(grade, graded, monkeypatch, capsys):
    type_points(graded, {"ann": ("2", "")})
    faulty = {"ann": ("1", ""), "bob": ("many", "")}
    save_meanwhile(grade, monkeypatch, lambda: type_points(graded, faulty))

    grade({"cy": ANSWERS})

    assert totals(graded)["ann"] == "11"
    printed = capsys.readouterr().out.splitlines()
    [line] = [line for line in printed if "many" in line]
    assert "row 3 gives bob 'many' points" in line
    [kept] = [name for name, data in contents(graded).items() if b"many" in data]
    assert kept.startswith("earlier/by-hand.")
    assert kept in line


# --- as spreadsheets save it

NOTE = "schön \u2013 ja"
# Separator, encoding, the line above the head, how points are typed, and the total in
# grades.csv.
LAYOUTS = [
    (";", "cp1252", "", "1,5", "10,5"),
    (";", "utf-8-sig", "sep=;\r\n", "1,5", "10,5"),
    (";", "utf-8", "", "1.5", "10.5"),
    ("\t", "utf-16", "", "1,5", "10,5"),
    ("\t", "utf-8", "", "1.5", "10.5"),
    (",", "utf-8", "sep=,\n", "1,5", "10.5"),
]


@pytest.mark.parametrize(
    ("separator", "encoding", "above_head", "points", "total"), LAYOUTS
)
def test_a_table_is_read_as_saved_and_keeps_its_separator(
    separator, encoding, above_head, points, total, grade, graded
):
    entries = {"ann": (points, NOTE)}
    type_points(
        graded,
        entries,
        separator=separator,
        encoding=encoding,
        above_head=above_head,
    )
    grade({"ann": ANSWERS})

    def first_row(name):
        text = (graded / name).read_bytes().decode("utf-8-sig")
        return next(csv.DictReader(io.StringIO(text), delimiter=separator))

    # The second time it is the table that grading wrote.
    for _ in range(2):
        assert first_row(BY_HAND)["points"] == points
        assert first_row(BY_HAND)["note"] == NOTE
        assert first_row("grades.csv")["total"] == total
        page = (graded / "by-hand.html").read_text(encoding="utf-8")
        assert f'"separator": {json.dumps(separator)}' in page
        grade({"ann": ANSWERS})


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("cp1251", "очень хорошо"),
        ("cp1250", "całkiem dobrze"),
        ("gbk", "很好"),
        ("utf-16-le", "without its mark"),
    ],
)
def test_a_table_whose_encoding_is_in_doubt_is_not_read(encoding, note, grade, graded):
    type_points(graded, {"ann": ("1", note)}, separator=";", encoding=encoding)
    before = contents(graded)

    with refused(BY_HAND, "is not clear; save it as CSV UTF-8"):
        grade(CLASS)

    assert contents(graded) == before


def test_a_table_of_half_a_character_is_not_read(grade, graded):
    type_points(graded, {"ann": ("1", "")}, separator=";", encoding="utf-16")
    saved = (graded / BY_HAND).read_bytes()
    (graded / BY_HAND).write_bytes(saved[:-1])
    with refused(BY_HAND, "is not clear; save it as CSV UTF-8"):
        grade(CLASS)


def test_an_encoding_that_changes_a_name_is_in_doubt(grade, graded):
    grade({"Dvořák": ANSWERS})
    # The bytes of these letters are other letters in cp1252.
    type_points(graded, {}, separator=";", encoding="cp1250")
    with refused("another name than 'Dvořák', so its encoding is not clear"):
        grade(CLASS)


def test_a_table_without_notes_is_read(grade, graded):
    # A space is no points.
    points = {"ann": "2", "bob": " "}
    rows = []
    for row in table(graded, BY_HAND):
        if row["student"] in points:
            columns = ("submission", "assignment", "exercise", "of")
            kept = {column: row[column] for column in columns}
            rows.append(kept | {"points": points[row["student"]]})
    (graded / BY_HAND).write_text(csv_text(rows))

    grade({"ann": ANOTHER_HAND_IN, "bob": ANOTHER_HAND_IN})

    assert by_hand(graded)["ann"] == ("2", AGAIN)
    assert by_hand(graded)["bob"][1] == ""
    assert totals(graded)["bob"] == "9"


@pytest.mark.parametrize("points", ["", "1"])
def test_two_rows_for_one_student_are_named(points, grade, graded):
    with (graded / BY_HAND).open(encoding="utf-8", newline="") as file:
        lines = list(file)
    second = lines[1].replace(",2,,", f",2,{points},")
    with (graded / BY_HAND).open("w", encoding="utf-8", newline="") as file:
        file.writelines([*lines, "\r\n", second])
    before = contents(graded)

    with refused(
        f"{BY_HAND}: rows 2 and 6 are both for ann, small exercise 3; keep one"
    ):
        grade(CY_ANEW)

    assert contents(graded) == before


def test_a_spreadsheet_in_place_of_the_table_is_named(grade, graded, capsys):
    (graded / "by-hand.xlsx").write_bytes(b"PK")
    grade(CLASS)
    line = "by-hand.xlsx: is not read; save it as CSV in the same folder"
    assert line in capsys.readouterr().out.splitlines()


# --- several graders


def test_copies_of_graders_are_merged_and_set_aside(grade, graded, capsys):
    ada = {"ann": ("2", ""), "bob": ("", "on paper")}
    type_points(graded, ada, "by-hand-ada.csv", separator=";", encoding="cp1252")
    ben = {"ann": ("2,0", "well said"), "cy": ("0", "")}
    type_points(graded, ben, "by-hand (1).csv")
    type_points(graded, {"bob": ("1", "")})
    capsys.readouterr()

    grade(CLASS)

    assert by_hand(graded) == {
        "ann": ("2,0", "well said"),
        "bob": ("1", "on paper"),
        "cy": ("0", ""),
    }
    assert totals(graded) == {"ann": "11", "bob": "10", "cy": "0"}
    printed = capsys.readouterr().out
    for rows, name in (("2 rows", "by-hand (1)"), ("1 row", "by-hand-ada")):
        moved = f"{rows} taken from {name}.csv, which is now earlier/{name}."
        assert moved in printed
        assert not (graded / f"{name}.csv").exists()

    before = contents(graded)
    grade(CLASS)
    assert contents(graded) == before


def test_graders_who_differ_are_named(grade, graded):
    ada = {"ann": ("2", "good"), "bob": ("1", "")}
    ben = {"ann": ("1", "weak"), "bob": ("1", "")}
    type_points(graded, ada, "by-hand-ada.csv")
    type_points(graded, ben, "by-hand-ben.csv")
    before = contents(graded)

    with pytest.raises(BookError) as error:
        grade(CY_ANEW)

    head, *differences = str(error.value).splitlines()
    assert "graders differ in 2 places, so nothing was" in head
    place = "  ann, small exercise 3"
    assert differences == [
        f"{place}: points '2' in by-hand-ada.csv, '1' in by-hand-ben.csv",
        f"{place}: note 'good' in by-hand-ada.csv, 'weak' in by-hand-ben.csv",
    ]
    assert contents(graded) == before

    type_points(graded, ben | {"ann": ("", "")}, "by-hand-ben.csv")
    grade(CLASS)
    assert by_hand(graded)["ann"] == ("2", "good")


def test_a_copy_is_merged_next_to_the_note_of_a_hand_in(grade, graded, monkeypatch):
    type_points(graded, {"ann": ("2", "good")}, "by-hand-ada.csv")
    bob = {"bob": ("1", "")}
    save_meanwhile(grade, monkeypatch, lambda: type_points(graded, bob))

    grade({"ann": ANOTHER_HAND_IN})

    assert by_hand(graded)["ann"] == ("2", f"good; {AGAIN}")
    assert by_hand(graded)["bob"][0] == "1"
    assert not (graded / "by-hand-ada.csv").exists()


def test_a_note_from_a_copy_stands_next_to_that_of_a_hand_in(grade, graded):
    type_points(graded, {"ann": ("2", "")})
    grade({"ann": ANOTHER_HAND_IN})
    assert by_hand(graded)["ann"] == ("2", AGAIN)

    # Ada's copy is from before.
    type_points(graded, {"ann": ("2", "good")}, "by-hand-ada.csv")
    grade({"ann": ANOTHER_HAND_IN})

    assert by_hand(graded)["ann"] == ("2", f"good; {AGAIN}")


def test_a_copy_that_differs_from_the_table_meanwhile_stays(
    grade, graded, monkeypatch, capsys
):
    type_points(graded, {"ann": ("2", "")}, "by-hand-ada.csv")
    ann = {"ann": ("1", "")}
    save_meanwhile(grade, monkeypatch, lambda: type_points(graded, ann))

    grade(CY_ANEW)

    printed = capsys.readouterr().out
    assert f"points '1' in {BY_HAND}, '2' in by-hand-ada.csv" in printed
    assert by_hand(graded)["ann"] == ("1", "")
    assert (graded / "by-hand-ada.csv").exists()


# --- late work

DUE = datetime.fromisoformat("2026-02-02T12:00:00+01:00")
RULE = LateRule(percent=20, grace=3600, most=50)
# In UTC.
TIMES = {
    "ada": "2026-02-02 10:59:59",
    "bob": "2026-02-02 11:59:59",
    "cy": "2026-02-02 12:00:01",
    "dee": "2026-02-03 12:00:01",
    "eve": "2026-03-03 12:00:01",
}
HANDED_IN = {
    f"{name}+small+{time}.0 UTC/small": ANSWERS for name, time in TIMES.items()
}


def feedback_pages(out):
    """Return the pages of feedback by student."""
    pages = {}
    for name, page in contents(out / "feedback").items():
        pages[name.split("-")[0]] = page.decode()
    return pages


@pytest.fixture
def graded_late(grade, out):
    """The folder of a class that handed in around the due date, each for 9 points."""
    grade.assignments = [small(due=DUE, late=RULE)]
    grade(HANDED_IN)
    return out


def test_late_work_costs_what_the_rule_says(graded_late):
    rows = rows_by_student(graded_late)
    assert {row["total"] for row in rows.values()} == {"9"}
    after_penalty = {name: row["total after penalty"] for name, row in rows.items()}
    assert after_penalty == {
        # In time, and within the hour of grace.
        "ada": "9",
        "bob": "9",
        # A day has begun, and two.
        "cy": "7.2",
        "dee": "5.4",
        # Half of the points at most.
        "eve": "4.5",
    }
    columns = ("late", "days late", "penalty in %", "penalty in points")
    assert [rows["dee"][column] for column in columns] == ["late", "2", "40", "3.6"]
    assert [rows["ada"][column] for column in columns] == ["", "", "", ""]


def test_late_students_are_told_their_penalty(graded_late):
    pages = feedback_pages(graded_late)
    assert "handed in 2 days late: 40 % less, 5.4 points" in pages["dee"]
    assert "handed in 1 day late: 20 % less, 7.2 points" in pages["cy"]
    assert "within the grace period" in pages["bob"]
    assert " late" not in pages["ada"]


def test_grading_says_how_many_were_late(grade, capsys):
    grade.assignments = [small(due=DUE, late=RULE)]
    grade(HANDED_IN)
    assert "handed in late, and graded with the penalty: 3" in capsys.readouterr().out


def test_another_rule_runs_no_answer_again(grade, graded_late):
    # Points by hand count before the penalty.
    type_points(graded_late, {"cy": ("1,333", "")})
    grade.assignments = [small(due=DUE, late=replace(RULE, percent=10))]
    grade(HANDED_IN)
    assert grade.asked == []
    cy = rows_by_student(graded_late)["cy"]
    assert cy["total"] == "10.33"
    assert cy["total after penalty"] == "9.3"

    grade.assignments = [SMALL]
    grade(HANDED_IN)
    assert grade.asked == []
    assert "total after penalty" not in table(graded_late)[0]


def test_no_binary_fraction_is_written(grade, out):
    grade.assignments = [small(due=DUE, late=RULE)]
    answers = ANSWERS | {1: "double = 1"}
    late = {"cy+small+2026-02-02 12:00:01.0 UTC/small": answers}
    grade(late)
    type_points(out, {"cy": ("1", "")})

    grade(late)

    # In binary fractions 0.8 times 7 is 5.6000000000000005.
    assert table(out)[0]["total after penalty"] == "5.6"
    for data in contents(out).values():
        assert b"5.600" not in data
        assert b"1.39" not in data


def test_late_at_an_unknown_time_costs_nothing(grade, out, capsys):
    grade.assignments = [small(due=DUE, late=RULE)]
    grade({"roe_LATE_1_2_small": ANSWERS, "doe_2_3_small": ANSWERS})

    line = "handed in late, at an unknown time: 1; the download does not say when, so"
    assert line in capsys.readouterr().out
    [doe, roe] = table(out)
    assert roe["late"] == "late"
    assert roe["days late"] == "not known"
    assert roe["total after penalty"] == "9"
    assert doe["late"] == ""
    assert doe["days late"] == ""
    assert "handed in late<" in feedback_pages(out)["roe"]


# --- what students and graders read


def test_an_error_in_a_hidden_test_has_its_name(grade, out):
    names = iter(["IndexError", "an error of its own class", None])
    engine = grade.engine

    def engine_with_names(tasks):
        for task, judgement in engine(tasks):
            for question in judgement.results.values():
                for test in question.tests:
                    if test.reason is not None and "raised" in test.reason:
                        test.error = next(names)
            yield task, judgement

    grade.engine = engine_with_names
    raises = {
        1: "def double(x):\n    raise IndexError",
        3: "def zeros(n):\n    raise ValueError",
    }
    grade({"ann": ANSWERS | raises})

    page = feedback_pages(out)["ann"]
    assert "your code raised an IndexError<" in page
    assert "your code raised an error of its own class<" in page
    assert "your code raised an error<" in page


def test_comments_and_cells_of_text_reach_the_reader(grade, out):
    comment = "# A <b>launch</b> takes as long"
    answer = f"# your function\n{ANSWERS[3]}  {comment}\ny = '# no'\n# so"
    notebook = edition(ANSWERS | {3: answer})
    insert_cell(notebook, "holds-3", "markdown", "Because it waits.")
    grade({"ann": notebook})

    page = (out / "by-hand.html").read_text(encoding="utf-8")
    read, code = page.split("Code of the answer")
    assert "Because it waits." in read
    assert "  3  zeros = " in read
    assert "&lt;b&gt;launch&lt;/b&gt; takes as long" in read
    assert "5  # so" in read
    assert "  1  # your function" not in read
    assert "# no" not in read
    assert "# your function" in code
    assert "# so" in code
