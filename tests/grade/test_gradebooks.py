"""Grades go into exports of Canvas and Moodle, and no other byte changes."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
from io import BytesIO
from zipfile import ZipFile

import nbformat
import pytest
from classroom import DATA
from helpers import ROOT, refused

from coursework.grade.exchange.gradebooks import fill_export
from coursework.grade.report import returned
from coursework.grade.results import Grade
from tools.errors import BookError


def export_text(name, line_end):
    text = (DATA / f"{name}.csv").read_text(encoding="utf-8-sig")
    return "\ufeff" + text.replace("\n", line_end)


CANVAS = export_text("canvas", "\r\n")
MOODLE = export_text("moodle", "\n")
[JANES_ROW] = [line for line in CANVAS.splitlines(keepends=True) if "Jane" in line]


def result(student, points, of=12, **changes):
    """Return what grading writes of a submission."""
    fields = {
        "submission": f"id-{student}",
        "student": student,
        "reason": None,
        "assignment": "computing-devices",
        "points": points,
        "of": of,
    }
    return fields | changes


TOO_LARGE = "'hw.ipynb' has 500 MB; the limit is 20 MB"
JANE = "doejane (Canvas 340934)"
JANES_RESULT = result(JANE, 9.5)
CLASS = [
    JANES_RESULT,
    result("roerichard (Canvas 340935)", 12),
    result("eve (Canvas 340936)", 12),
    result("ztrk (Canvas 340937)", 0, reason=TOO_LARGE),
    result("poe (Canvas 340938)", 1),
    result("gone (Canvas 999)", 4),
]


@pytest.fixture
def fill(tmp_path, capsys):
    """Fill an export, and return the filled one with what was printed.

    It is called with a text or with bytes, and returns the same kind.
    """

    def fill(text, results, **options):
        folder = tmp_path / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, content in enumerate(results):
            path = folder / f"{number}.json"
            path.write_text(json.dumps(content), encoding="utf-8")

        export = tmp_path / "export.csv"
        data = text if isinstance(text, bytes) else text.encode()
        export.write_bytes(data)
        fill_export(export, tmp_path, **options)
        assert export.read_bytes() == data

        filled = (tmp_path / "export-filled.csv").read_bytes()
        printed = capsys.readouterr().out
        if isinstance(text, bytes):
            return filled, printed
        return filled.decode(), printed

    return fill


def test_canvas_gets_the_grades_and_nothing_else(fill, tmp_path):
    text, printed = fill(CANVAS, CLASS)
    expected = CANVAS.replace('Group B",,5,,41.67', 'Group B",,5,9.5,41.67')
    assert text == expected.replace("+1,,3,,", "+1,,12,,")
    assert printed.splitlines() == [
        "Canvas: 'Computing devices (4711)', 12 points",
        "replaced: eve (Canvas 340936): 3 by 12",
        f"not filled in: gone (Canvas 999): is not in {tmp_path / 'export.csv'}",
        "not filled in: poe (Canvas 340938): not assigned to them",
        "not filled in: roerichard (Canvas 340935): excused",
        f"not filled in: ztrk (Canvas 340937): {TOO_LARGE}",
        "filled in: 2 of 6 students",
        "nothing handed in: Student, Test",
        f"written: {tmp_path / 'export-filled.csv'}",
    ]


def test_a_filled_export_is_filled_again_the_same(fill):
    text, _ = fill(CANVAS, CLASS)
    again, printed = fill(text, CLASS)
    assert again == text
    assert "replaced" not in printed


def test_a_space_is_no_grade_that_is_replaced(fill):
    _, printed = fill(CANVAS.replace('B",,5,,', 'B",,5, ,'), CLASS)
    assert "replaced: doejane" not in printed


def test_an_export_that_is_not_there_is_one_line(fill, tmp_path):
    fill(CANVAS, CLASS)
    (tmp_path / "export.csv").unlink()
    with refused("cannot be read"):
        fill_export(tmp_path / "export.csv", tmp_path)


def another_jane(n):
    row = JANES_ROW.replace("340934", f"9{n:02}").replace("S1001", f"S{n}")
    return row.replace("jane@", f"jane{n}@")


@pytest.mark.parametrize(
    ("count", "more"), [(9, ""), (10, " and 1 more"), (11, " and 2 more")]
)
def test_of_those_who_handed_nothing_in_ten_are_named(fill, count, more):
    rows = [another_jane(n) for n in range(count)]
    _, printed = fill(CANVAS + "".join(rows), CLASS)
    named = "; ".join(["Student, Test", *["Doe, Jane"] * 9])
    assert f"nothing handed in: {named}{more}\n" in printed


def test_moodle_gets_the_grades_and_nothing_else(fill):
    results = [
        result("Jane Doe (Moodle 123456)", 7),
        result("eve (Moodle 1234)", 0),
        result("b (Moodle 23456)", 2),
    ]
    text, printed = fill(MOODLE, results)
    expected = MOODLE.replace("grading - ,,12.00", "grading - ,7,12.00")
    assert text == expected.replace("grading - ,5.00", "grading - ,0")
    assert "Moodle: 'Grade', 12 points\n" in printed
    assert "filled in: 2 of 3 students" in printed
    # A number within another one is no match.
    assert "b (Moodle 23456): is not in" in printed


def test_an_export_in_another_language_is_filled(fill):
    text = MOODLE.replace("Identifier", "ID").replace("Participant ", "Teilnehmer/in")
    text = text.replace("12.00", '"12,00"').replace(",Grade,", ",Bewertung,")
    results = [result("Jane Doe (Moodle 123456)", 7.5)]
    with refused("0 columns for 'Grade'; name one with --column: Bewertung"):
        fill(text, results)
    with_grade, _ = fill(text, results, column="Bewertung")
    assert with_grade == text.replace('grading - ,,"12', 'grading - ,7.5,"12', 1)


def rewritten(text, delimiter, line_end, encoding):
    """Write a table as another program would."""
    text = text.replace("\ufeff", "").replace("\r\n", line_end)
    rows = csv.reader(io.StringIO(text, newline=""))
    table = io.StringIO()
    writer = csv.writer(table, delimiter=delimiter, lineterminator=line_end)
    writer.writerows(rows)
    return table.getvalue().encode(encoding)


@pytest.mark.parametrize(
    "manner", [(";", "\n", "latin-1"), ("\t", "\r\n", "utf-8")], ids=["Excel", "tabs"]
)
def test_an_export_keeps_the_way_it_is_written(fill, manner):
    expected, _ = fill(CANVAS, CLASS)
    text, _ = fill(rewritten(CANVAS, *manner), CLASS)
    assert text == rewritten(expected, *manner)


# --- what Jane gets


def janes_grade(text, column="Computing devices (4711)"):
    """Return what stands in Jane's row of the filled export of Canvas."""
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    [row] = [row for row in rows if row[0] == "Doe, Jane"]
    return row[head.index(column)]


def test_a_column_is_named_by_its_number(fill):
    same_names = CANVAS.replace("Puzzles (4710)", "Computing-devices! (4709)")
    text, _ = fill(same_names, CLASS, column="4711")
    assert janes_grade(text) == "9.5"


def test_a_column_is_named_in_words(fill):
    text, _ = fill(CANVAS, CLASS, column="computing Devices")
    assert janes_grade(text) == "9.5"


def test_points_are_scaled_to_two_decimals(fill):
    text, _ = fill(CANVAS, [result(JANE, 7, of=9)], scale=True)
    assert janes_grade(text) == "9.33"


def test_of_two_results_neither_counts(fill):
    another = result("doe (Canvas 340934)", 1, submission="another")
    text, printed = fill(CANVAS, [*CLASS, another])
    assert janes_grade(text) == ""
    assert f"two results, 'another' and 'id-{JANE}'" in printed


def test_a_result_that_waits_for_a_person_is_left(fill):
    by_hand = {"2": {"points": None, "of": 2}, "3": {"points": 1, "of": 2}}
    waits = JANES_RESULT | {"by_hand": by_hand}
    text, printed = fill(CANVAS, [waits, CLASS[2]])
    assert janes_grade(text) == ""
    assert "exercise 2 waits for points in by-hand.csv" in printed


def test_no_points_from_a_person_are_points(fill):
    graded = JANES_RESULT | {"by_hand": {"2": {"points": 0, "of": 2}}}
    text, printed = fill(CANVAS, [graded])
    assert janes_grade(text) == "9.5"
    assert "filled in: 1" in printed


def test_a_word_in_place_of_a_grade_is_replaced(fill):
    text, printed = fill(CANVAS.replace('B",,5,,', 'B",,5,late,'), CLASS)
    assert janes_grade(text) == "9.5"
    assert "(Canvas 340934): late by 9.5" in printed


def test_a_late_result_is_filled_in_after_its_penalty(fill):
    penalty = {"days": 1, "percent": 20, "points": 2.4}
    late = result(JANE, 12, penalty=penalty, points_after=9.6)
    text, printed = fill(CANVAS, [late])
    assert janes_grade(text) == "9.6"
    assert "handed in late, and graded with the penalty: 1" in printed


def test_a_result_late_at_an_unknown_time_is_filled_in_whole(fill):
    penalty = {"days": None, "percent": 0, "points": 0}
    late = JANES_RESULT | {"penalty": penalty, "points_after": 9.5}
    text, printed = fill(CANVAS, [late])
    assert janes_grade(text) == "9.5"
    assert "at an unknown time: 1; the download does not say when" in printed


STRANGER = result("gone (Canvas 999)", 0, reason=TOO_LARGE)


def test_a_stranger_is_named_and_changes_no_other_row(fill):
    text, printed = fill(CANVAS, [JANES_RESULT, STRANGER])
    assert janes_grade(text) == "9.5"
    assert f"gone (Canvas 999): {TOO_LARGE}" in printed


def test_a_student_in_two_rows_is_left(fill):
    text, printed = fill(CANVAS + JANES_ROW, CLASS)
    assert JANES_ROW in text
    assert "9.5" not in text
    assert "340934): is in several rows of" in printed


def test_a_row_that_ends_early_is_filled_up(fill):
    text, _ = fill(CANVAS.replace(",5,,41.67,41.67", ""), CLASS)
    assert 'Group B",,,9.5\r\n' in text


OF_PUZZLES = result("poe (Canvas 340938)", 3, of=5, assignment="puzzles")


def test_a_result_of_another_chapter_is_left(fill):
    janes_puzzles = result(JANE, 1, assignment="puzzles")
    text, printed = fill(CANVAS, [janes_puzzles, *CLASS[:4], OF_PUZZLES])
    assert janes_grade(text) == "9.5"
    assert "poe (Canvas 340938): handed in puzzles" in printed


def test_a_chapter_may_be_named(fill):
    text, _ = fill(CANVAS, [JANES_RESULT, OF_PUZZLES], chapter="puzzles")
    assert text == CANVAS.replace("A,,,N/A", "A,,3,N/A")


# --- who is who

# A student of another source, and the row of the export that is hers.
MATCHES = {
    # As Gradescope knows them.
    "Jane Doe (S1001)": "Doe, Jane",
    "Jane Doe (JANE@example.org)": "Doe, Jane",
    # The name of an account, as JupyterHub knows them.
    "jane@example.org": "Doe, Jane",
    "Ann (x@example.org); Jane Doe (S1001)": "Doe, Jane",
    "x (S340934)": "Öztürk",
}
STRANGERS = [
    "x (340934)",
    "340934",
    "x (Moodle 340934)",
    "Doe, Jane",
    "x (Canvas 34093)",
    "Canvas 340934",
    "",
    "()",
]


@pytest.mark.parametrize("student", MATCHES)
def test_students_are_matched_by_what_is_theirs_alone(fill, student):
    text, _ = fill(CANVAS, [result(student, 11)])
    [changed] = set(text.splitlines()) - set(CANVAS.splitlines())
    assert MATCHES[student] in changed
    assert ",11," in changed


@pytest.mark.parametrize("student", STRANGERS)
def test_nobody_is_matched_by_less(fill, student):
    with pytest.raises(BookError, match="nobody can be filled in"):
        fill(CANVAS, [result(student, 11)])


# --- exports and results that do not fit

NO_POINTS = (
    "no column has points, as in a gradebook of Canvas or a grading worksheet of Moodle"
)
NAMES = "Puzzles (4710); Computing devices (4711)"
TWO_COLUMNS = CANVAS.replace("Puzzles", "Computing devices")
THIRTEEN_POINTS = CANVAS.replace(",5,12,", ",5,13,")
NO_EXPORTS = {
    "empty": "",
    "another table": "a,b\nc,d\n",
    "another encoding": CANVAS.encode("utf-16"),
    "Canvas without points": CANVAS.replace("Points Possible", ""),
    "Moodle without points": MOODLE.replace("12.00", ""),
}


@pytest.mark.parametrize("text", NO_EXPORTS.values(), ids=NO_EXPORTS.keys())
def test_a_table_without_points_is_refused(text, fill):
    with refused(NO_POINTS):
        fill(text, CLASS)


@pytest.mark.parametrize("name", ["Final Score", "4712", "Computing"])
def test_a_column_that_is_not_there_is_refused(name, fill):
    with refused(NAMES):
        fill(CANVAS, CLASS, column=name)


@pytest.mark.parametrize(
    ("export", "words"),
    [
        (TWO_COLUMNS, "2 columns for 'computing-devices"),
        (THIRTEEN_POINTS, "counts 13 points, the exercises 12; change"),
    ],
    ids=["two columns", "other points"],
)
def test_an_export_that_does_not_fit_is_refused(export, words, fill):
    with refused(words):
        fill(export, CLASS)


BOTH_CHAPTERS = [JANES_RESULT, OF_PUZZLES]
NO_CHAPTER = [STRANGER | {"assignment": None}]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (BOTH_CHAPTERS, "name one with --chapter: computing-devices, puzzles"),
        ([], "no results; run 'make grade SUB"),
        (NO_CHAPTER, "name one with --chapter: none"),
        ([7], "make grade"),
    ],
    ids=["two chapters", "none", "no chapter", "no result"],
)
def test_results_that_do_not_fit_are_refused(results, words, fill):
    with refused(words):
        fill(CANVAS, results)


# --- feedback that goes back

PAGE = "<body>\n<h1>Well done</h1>\n</body>"
HANDED_IN = {
    "doe (Canvas 34)": "doe_LATE_34_208_work-1.ipynb",
    "roe (Canvas 35)": "roe_35_209_work.zip",
    "Jane Doe (Moodle 12)": "Jane Doe_12_assignsubmission_file/work.ipynb",
    "Öz (Moodle 13)": "week 1/Öz_13_assignsubmission_file_work.ipynb",
    "ann": "ann.ipynb",
}


@pytest.fixture(scope="module")
def feedback():
    """The zips of feedback that go back, by name."""
    grades = [Grade("", student, path) for student, path in HANDED_IN.items()]
    zips = returned([(grade, PAGE) for grade in grades])
    return {name: ZipFile(BytesIO(data)) for name, data in zips.items()}


def test_canvas_gets_feedback_named_as_what_was_handed_in(feedback):
    canvas = feedback["feedback-canvas.zip"]
    notebook_name = "doe_LATE_34_208_work-1.ipynb"
    zip_name = "roe_35_209_work.zip"
    assert canvas.namelist() == [notebook_name, zip_name]
    notebook = nbformat.reads(canvas.read(notebook_name), as_version=4)
    assert notebook.cells[0].source == "<h1>Well done</h1>\n"
    within = ZipFile(BytesIO(canvas.read(zip_name)))
    assert within.namelist() == ["feedback.ipynb"]


def test_moodle_gets_feedback_in_the_folders_it_named(feedback):
    moodle = feedback["feedback-moodle.zip"]
    first = "Jane Doe_12_assignsubmission_file_/feedback.html"
    second = "Öz_13_assignsubmission_file_/feedback.html"
    assert moodle.namelist() == [first, second]
    assert moodle.read(first).decode() == PAGE


def test_files_of_no_course_system_go_back_to_none():
    assert returned([(Grade("", "ann", "ann.ipynb"), PAGE)]) == {}


WALK = re.compile("<!-- the walk -->(.*)<!-- the end of the walk -->", re.S)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@pytest.mark.full
def test_the_walk_ends_in_the_file_that_the_guide_shows():
    """The walk in the guide for instructors is run as it is written."""
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(WALK.search(guide)[1])
    [shown] = [text for kind, text in blocks if kind == "text"]
    commands = "".join(text for kind, text in blocks if kind == "sh")
    # Only what the last command prints is shown.
    *commands_before, last = commands.splitlines()
    script = "\n".join(["set -eu", "{", *commands_before, "} >&2", last])

    environment = dict(os.environ)
    environment.pop("MAKEFLAGS", None)
    run = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stderr
    assert "not graded: fontaineemil (Canvas 1005)" in run.stderr
    assert run.stdout == shown
