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


def export(name, line_end):
    text = (DATA / f"{name}.csv").read_text(encoding="utf-8-sig")
    return "\ufeff" + text.replace("\n", line_end)


CANVAS = export("canvas", "\r\n")
MOODLE = export("moodle", "\n")
[JANE] = [line for line in CANVAS.splitlines(keepends=True) if "Jane" in line]


def result(student, points, of=12, **changes):
    """Return what grading writes of a submission."""
    written = {
        "submission": f"id-{student}",
        "student": student,
        "reason": None,
        "assignment": "computing-devices",
        "points": points,
        "of": of,
    }
    return written | changes


TOO_LARGE = "'hw.ipynb' has 500 MB; the limit is 20 MB"
CLASS = [
    result("doejane (Canvas 340934)", 9.5),
    result("roerichard (Canvas 340935)", 12),
    result("eve (Canvas 340936)", 12),
    result("ztrk (Canvas 340937)", 0, reason=TOO_LARGE),
    result("poe (Canvas 340938)", 1),
    result("gone (Canvas 999)", 4),
]


@pytest.fixture
def filled(tmp_path, capsys):
    """Fill an export, and return the filled one with what was printed.

    It is called with a text or with bytes, and returns the same kind.
    """

    def fill(text, results, **options):
        folder = tmp_path / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, written in enumerate(results):
            content = json.dumps(written)
            (folder / f"{number}.json").write_text(content, encoding="utf-8")

        export = tmp_path / "export.csv"
        data = text if isinstance(text, bytes) else text.encode()
        export.write_bytes(data)
        fill_export(export, tmp_path, **options)
        assert export.read_bytes() == data

        filled = (tmp_path / "export-filled.csv").read_bytes()
        if not isinstance(text, bytes):
            filled = filled.decode()
        return filled, capsys.readouterr().out

    return fill


def test_canvas_gets_the_grades_and_nothing_else(filled, tmp_path):
    text, printed = filled(CANVAS, CLASS)
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


def test_a_filled_export_is_filled_again_the_same(filled):
    text, _ = filled(CANVAS, CLASS)
    again, printed = filled(text, CLASS)
    assert again == text
    assert "replaced" not in printed


def test_a_space_is_no_grade_that_is_replaced(filled):
    _, printed = filled(CANVAS.replace('B",,5,,', 'B",,5, ,'), CLASS)
    assert "replaced: doejane" not in printed


def test_an_export_that_is_not_there_is_one_line(filled, tmp_path):
    filled(CANVAS, CLASS)
    (tmp_path / "export.csv").unlink()
    with refused("cannot be read"):
        fill_export(tmp_path / "export.csv", tmp_path)


def another_jane(n):
    row = JANE.replace("340934", f"9{n:02}").replace("S1001", f"S{n}")
    return row.replace("jane@", f"jane{n}@")


@pytest.mark.parametrize(
    ("count", "more"), [(9, ""), (10, " and 1 more"), (11, " and 2 more")]
)
def test_of_those_who_handed_nothing_in_ten_are_named(filled, count, more):
    rows = [another_jane(n) for n in range(count)]
    _, printed = filled(CANVAS + "".join(rows), CLASS)
    named = "; ".join(["Student, Test", *["Doe, Jane"] * 9])
    assert f"nothing handed in: {named}{more}\n" in printed


def test_moodle_gets_the_grades_and_nothing_else(filled):
    results = [
        result("Jane Doe (Moodle 123456)", 7),
        result("eve (Moodle 1234)", 0),
        result("b (Moodle 23456)", 2),
    ]
    text, printed = filled(MOODLE, results)
    expected = MOODLE.replace("grading - ,,12.00", "grading - ,7,12.00")
    assert text == expected.replace("grading - ,5.00", "grading - ,0")
    assert "Moodle: 'Grade', 12 points\n" in printed
    assert "filled in: 2 of 3 students" in printed
    # A number within another one is no match.
    assert "b (Moodle 23456): is not in" in printed


def test_an_export_in_another_language_is_filled(filled):
    text = MOODLE.replace("Identifier", "ID").replace("Participant ", "Teilnehmer/in")
    text = text.replace("12.00", '"12,00"').replace(",Grade,", ",Bewertung,")
    results = [result("Jane Doe (Moodle 123456)", 7.5)]
    with refused("0 columns for 'Grade'; name one with --column: Bewertung"):
        filled(text, results)
    with_grade, _ = filled(text, results, column="Bewertung")
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
def test_an_export_keeps_the_way_it_is_written(filled, manner):
    expected, _ = filled(CANVAS, CLASS)
    text, _ = filled(rewritten(CANVAS, *manner), CLASS)
    assert text == rewritten(expected, *manner)


WAITS = {"by_hand": {"2": {"points": None, "of": 2}, "3": {"points": 1, "of": 2}}}
GIVEN = {"by_hand": {"2": {"points": 0, "of": 2}}}
TWICE = CANVAS.replace("Puzzles (4710)", "Computing-devices! (4709)")
STRAY = result("poe (Canvas 340938)", 3, of=5, assignment="puzzles")
AGAIN = result("doe (Canvas 340934)", 1, submission="another")
BOTH = result("doejane (Canvas 340934)", 1, assignment="puzzles")
ENDS_EARLY = CANVAS.replace(",5,,41.67,41.67", "")
LATE = CANVAS.replace('B",,5,,', 'B",,5,late,')
NINTHS = [result("doejane (Canvas 340934)", 7, of=9)]
IN_WORDS = {"column": "computing Devices"}
ROW, LEFT = ",5,9.5,41.67", ",5,,41.67"
PENALTY = {"penalty": {"days": 1, "percent": 20, "points": 2.4}, "points_after": 9.6}
LATE_BY_A_DAY = [result("doejane (Canvas 340934)", 12, **PENALTY)]
STRANGER = result("gone (Canvas 999)", 0, reason=TOO_LARGE)
UNDATED = {"penalty": {"days": None, "percent": 0, "points": 0}, "points_after": 9.5}
# An export, the results, options, and what Jane's row and what is printed must hold.
JANES = {
    "a column by its number": (TWICE, CLASS, {"column": "4711"}, ROW, ""),
    "a column in words": (CANVAS, CLASS, IN_WORDS, ROW, ""),
    # Two decimals: a grade is never a formula.
    "scaled": (CANVAS, NINTHS, {"scale": True}, ",5,9.33,41.67", ""),
    "two results": (
        CANVAS,
        [*CLASS, AGAIN],
        {},
        LEFT,
        "two results, 'another' and 'id-doejane (Canvas 340934)'",
    ),
    "waits for a person": (
        CANVAS,
        [CLASS[0] | WAITS, CLASS[2]],
        {},
        LEFT,
        "exercise 2 waits for points in by-hand.csv",
    ),
    "a person gave nothing": (CANVAS, [CLASS[0] | GIVEN], {}, ROW, "filled in: 1"),
    "a word is replaced": (
        LATE,
        CLASS,
        {},
        ",5,9.5,",
        "(Canvas 340934): late by 9.5",
    ),
    "late": (
        CANVAS,
        LATE_BY_A_DAY,
        {},
        ",5,9.6,",
        "handed in late, and graded with the penalty: 1",
    ),
    "at an unknown time": (
        CANVAS,
        [CLASS[0] | UNDATED],
        {},
        ROW,
        "at an unknown time: 1; the download does not say when",
    ),
    "a stranger": (
        CANVAS,
        [CLASS[0], STRANGER],
        {},
        ROW,
        f"gone (Canvas 999): {TOO_LARGE}",
    ),
    "in two rows": (CANVAS + JANE, CLASS, {}, LEFT, "340934): is in several rows of"),
    "a row that ends early": (ENDS_EARLY, CLASS, {}, 'B",,,9.5\r', ""),
    "another chapter": (
        CANVAS,
        [BOTH, *CLASS[:4], STRAY],
        {},
        ROW,
        "poe (Canvas 340938): handed in puzzles",
    ),
    "the other chapter": (
        CANVAS,
        [CLASS[0], STRAY],
        {"chapter": "puzzles"},
        "A,,3,N/A",
        "",
    ),
}


@pytest.mark.parametrize(
    ("export", "results", "options", "row", "words"), JANES.values(), ids=JANES.keys()
)
def test_what_is_not_plain_is_left_and_named(
    export, results, options, row, words, filled
):
    text, printed = filled(export, results, **options)
    assert row in text
    assert words in printed


# Where students of other sources stand in the export.
MATCHES = {
    # As Gradescope knows them.
    "Jane Doe (S1001)": "Group B",
    "Jane Doe (JANE@example.org)": "Group B",
    # The name of an account, as JupyterHub knows them.
    "jane@example.org": "Group B",
    "Ann (x@example.org); Jane Doe (S1001)": "Group B",
    "x (S340934)": "ayse",
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
def test_students_are_matched_by_what_is_theirs_alone(filled, student):
    text, _ = filled(CANVAS, [result(student, 11)])
    [changed] = set(text.splitlines()) - set(CANVAS.splitlines())
    assert MATCHES[student] in changed
    assert ",11," in changed


@pytest.mark.parametrize("student", STRANGERS)
def test_nobody_is_matched_by_less(filled, student):
    with pytest.raises(BookError, match="nobody can be filled in"):
        filled(CANVAS, [result(student, 11)])


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
def test_a_table_without_points_is_refused(text, filled):
    with refused(NO_POINTS):
        filled(text, CLASS)


@pytest.mark.parametrize("name", ["Final Score", "4712", "Computing"])
def test_a_column_that_is_not_there_is_refused(name, filled):
    with refused(NAMES):
        filled(CANVAS, CLASS, column=name)


@pytest.mark.parametrize(
    ("export", "words"),
    [
        (TWO_COLUMNS, "2 columns for 'computing-devices"),
        (THIRTEEN_POINTS, "counts 13 points, the exercises 12; change"),
    ],
    ids=["two columns", "other points"],
)
def test_an_export_that_does_not_fit_is_refused(export, words, filled):
    with refused(words):
        filled(export, CLASS)


BOTH_CHAPTERS = [CLASS[0], STRAY]
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
def test_results_that_do_not_fit_are_refused(results, words, filled):
    with refused(words):
        filled(CANVAS, results)


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
    """The zips that go back to Canvas and to Moodle."""
    pages = []
    for student, path in HANDED_IN.items():
        pages.append((Grade("", student, path), PAGE))
    canvas, moodle = returned(pages).values()
    return ZipFile(BytesIO(canvas)), ZipFile(BytesIO(moodle))


def test_canvas_gets_feedback_named_as_what_was_handed_in(feedback):
    canvas, _ = feedback
    notebook_name, zip_name = canvas.namelist()
    assert notebook_name == "doe_LATE_34_208_work-1.ipynb"
    notebook = nbformat.reads(canvas.read(notebook_name), as_version=4)
    assert notebook.cells[0].source == "<h1>Well done</h1>\n"
    assert zip_name == "roe_35_209_work.zip"
    within = ZipFile(BytesIO(canvas.read(zip_name)))
    assert within.namelist() == ["feedback.ipynb"]


def test_moodle_gets_feedback_in_the_folders_it_named(feedback):
    _, moodle = feedback
    folders = ("Jane Doe_12_assignsubmission_file_", "Öz_13_assignsubmission_file_")
    assert moodle.namelist() == [f"{folder}/feedback.html" for folder in folders]
    assert moodle.read(moodle.namelist()[0]).decode() == PAGE


def test_files_of_no_course_system_go_back_to_none():
    assert returned([(Grade("", "ann", "ann.ipynb"), PAGE)]) == {}


WALK = re.compile("<!-- the walk -->(.*)<!-- the end of the walk -->", re.S)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


@pytest.mark.full
def test_the_walk_ends_in_the_file_that_the_guide_shows():
    """The walk in the guide for instructors is run as it is written."""
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(WALK.search(guide)[1])
    commands = "".join(text for kind, text in blocks if kind == "sh")
    [shown] = [text for kind, text in blocks if kind == "text"]
    *others, last = commands.splitlines()
    script = "\n".join(["set -eu", "{", *others, "} >&2", last])

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
