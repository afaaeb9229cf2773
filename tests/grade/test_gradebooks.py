"""Grades into exports of Canvas and Moodle: the grade of who was graded, and no other byte."""

import csv
import io
import json
import shutil
from io import BytesIO
from zipfile import ZipFile

import nbformat
import pytest

from tools.errors import BookError
from tools.grade.exchange.gradebooks import fill_export
from tools.grade.exchange.returned import returned

HEADER = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Notes,Puzzles (4710),Computing devices (4711),"
    "Assignments Current Score,Final Score\r\n"
)
JANE = '"Doe, Jane",340934,S1001,jane@example.org,"Group A, Group B",,5,,41.67,41.67\r\n'
CANVAS = (
    "\ufeff"
    + HEADER
    + ",,,,,,Manual Posting,,,\r\n"
    + "    Points Possible,,,,,,5,12,(read only),(read only)\r\n"
    + JANE
    + '"Roe, ""Rick"" Richard",340935,S1002,roe@example.org,A,"two\nlines",,EX,,\r\n'
    + '"=""=cmd|\' /C calc\'!A0""",340936,S1003,eve@example.org,A,+1,,3,,\r\n'
    + "Öztürk,340937,S340934,ayse@example.org,A,,,7,,\r\n"
    + "Poe,340938,S1005,poe@example.org,A,,,N/A,,\r\n"
    + '"Student, Test",340939,,,A,,,,,\r\n'
)
MOODLE = (
    "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum grade,"
    "Grade can be changed,Last modified (submission),Last modified (grade),"
    "Feedback comments\n"
    "Participant 123456,Jane Doe,jane@example.org,Submitted for grading - ,,12.00,Yes,"
    '"Monday, 2 February 2026, 3:58 PM",-,"<p>old, kept</p>"\n'
    "Participant 123457,Richard Roe,roe@example.org,No submission,,12.00,Yes,-,-,\n"
    "Participant 1234,@eve,eve@example.org,Submitted for grading - ,5.00,12.00,Yes,-,-,\n"
)


def result(student, points, of=12, **changes):
    made = {"submission": f"id-{student}", "student": student, "status": "graded", "reason": None}
    return made | {"assignment": "computing-devices", "points": points, "of": of} | changes


TOO_LARGE = "'hw.ipynb' has 500 MB; the limit is 20 MB"
CLASS = [
    result("doejane (Canvas 340934)", 9.5),
    result("roerichard (Canvas 340935)", 12),
    result("eve (Canvas 340936)", 12),
    result("ztrk (Canvas 340937)", 0, status="refused", reason=TOO_LARGE),
    result("poe (Canvas 340938)", 1),
    result("gone (Canvas 999)", 4),
]


@pytest.fixture
def filled(tmp_path, capsys):
    """Fills an export; the filled one and what was printed. The export is left as it was."""

    def fill(text, results, encoding="utf-8", **options):
        shutil.rmtree(tmp_path / "results", ignore_errors=True)
        (tmp_path / "results").mkdir()
        for number, made in enumerate(results):
            (tmp_path / f"results/{number}.json").write_text(json.dumps(made), encoding="utf-8")
        export, path = tmp_path / "export.csv", tmp_path / "export-filled.csv"
        export.write_bytes(text.encode(encoding))
        capsys.readouterr()
        try:
            fill_export(export, tmp_path, **options)
        except BookError:
            assert not path.exists()
            raise
        assert export.read_bytes() == text.encode(encoding)
        made = path.read_bytes().decode(encoding)
        path.unlink()
        return made, capsys.readouterr().out

    return fill


def test_canvas_gets_the_grades_and_keeps_every_other_cell(filled, tmp_path):
    text, said = filled(CANVAS, CLASS)
    expected = CANVAS.replace('Group B",,5,,41.67', 'Group B",,5,9.5,41.67')
    assert text == expected.replace("+1,,3,,", "+1,,12,,")
    assert said.splitlines() == [
        "Canvas: 'Computing devices (4711)', 12 points",
        f"not filled in: gone (Canvas 999): is not in {tmp_path / 'export.csv'}",
        "replaced: eve (Canvas 340936): 3 by 12",
        "not filled in: poe (Canvas 340938): not assigned to them",
        "not filled in: roerichard (Canvas 340935): excused",
        f"not filled in: ztrk (Canvas 340937): {TOO_LARGE}",
        "filled in: 2 of 6 students",
        "nothing handed in: Student, Test",
        "note: some cells begin as a formula does; the export had them",
        f"written: {tmp_path / 'export-filled.csv'}",
    ]
    again, said = filled(text, CLASS)
    assert again == text and "replaced" not in said


def test_moodle_gets_the_grades_and_keeps_every_other_cell(filled):
    results = [result("Jane Doe (Moodle 123456)", 7), result("eve (Moodle 1234)", 0)]
    text, said = filled(MOODLE, [*results, result("b (Moodle 23456)", 2)])
    expected = MOODLE.replace("grading - ,,12.00", "grading - ,7,12.00")
    assert text == expected.replace("grading - ,5.00", "grading - ,0")
    assert "Moodle: 'Grade', 12 points\n" in said and "filled in: 2 of 3 students" in said
    assert "b (Moodle 23456): is not in" in said  # a number within another is no match


def test_moodle_in_another_language(filled):
    text = MOODLE.replace("Participant ", "Teilnehmer/in").replace("Maximum grade", "Bestwertung")
    text = text.replace("12.00", '"12,00"').replace(",Grade,", ",Bewertung,")
    results = [result("Jane Doe (Moodle 123456)", 7.5)]
    with pytest.raises(BookError, match=r"no column 'Grade'; name the one of .*; Bewertung; Best"):
        filled(text, results)
    made, _ = filled(text, results, column="Bewertung")
    assert made == text.replace('grading - ,,"12', 'grading - ,7.5,"12', 1)


@pytest.mark.parametrize("column", ["4711", "Computing devices", "Computing devices (4711)"])
def test_a_column_can_be_named(column, filled):
    text = CANVAS.replace(
        "Puzzles (4710)", "Computing-devices! (4709)" if column[0] == "4" else "X"
    )
    made, _ = filled(text, CLASS, column=column)
    assert ",5,9.5,41.67" in made


@pytest.mark.parametrize("column", ["Final Score", "4712", "Computing"])
def test_no_other_column_is_written(column, filled):
    columns = r"Puzzles \(4710\); Computing devices \(4711\)$"
    with pytest.raises(BookError, match=f"0 columns for '{column}'; name one.*: {columns}"):
        filled(CANVAS, CLASS, column=column)


def test_another_maximum_is_refused_or_scaled(filled):
    results = [result("doejane (Canvas 340934)", 7, of=9)]
    with pytest.raises(BookError, match=r"counts 12 points, the exercises 9; .* --scale"):
        filled(CANVAS, results)
    made, _ = filled(CANVAS, results, scale=True)
    assert ",5,9.33,41.67" in made  # two decimals at most, so no spreadsheet takes it for a formula


WAITS = {"by_hand": {"2": {"points": None, "of": 2}, "3": {"points": 1, "of": 2}}}
LATE = CANVAS.replace('Group B",,5,,', 'Group B",,5,late,')
# An export, the results, and what of Jane's row and of what is said must be seen.
JANES = {
    "two results": (
        *(CANVAS, [*CLASS, result("doe (Canvas 340934)", 1, submission="another")], ",5,,41.67"),
        "two results, 'another' and 'id-doejane (Canvas 340934)'",
    ),
    "points wait for a person": (
        *(CANVAS, [CLASS[0] | WAITS, CLASS[2]], ",5,,41.67"),
        "exercise 2 waits for points in by-hand.csv",
    ),
    "a person gave nothing": (
        *(CANVAS, [CLASS[0] | {"by_hand": {"2": {"points": 0, "of": 2}}}], ",5,9.5,41.67"),
        "filled in: 1",
    ),
    "a cell that says no number": (LATE, CLASS, ",5,9.5,", "(Canvas 340934): late by 9.5"),
    "two rows": (CANVAS + JANE, CLASS, ",5,,41.67", "(Canvas 340934): is in several rows of"),
    "a row that ends early": (
        *(CANVAS + "Kant,340940,S1\r\n", [*CLASS, result("kant (Canvas 340940)", 2)], ",5,9.5,"),
        "not filled in: kant (Canvas 340940): the row ends early",
    ),
}


@pytest.mark.parametrize("what", JANES)
def test_what_is_not_plain_is_left_and_named(what, filled):
    text, results, row, words = JANES[what]
    made, said = filled(text, results)
    assert row in made and words in said
    assert what != "two rows" or made.count(JANE) == 2


@pytest.mark.parametrize(
    ("student", "where"),
    [
        ("Jane Doe (S1001)", "Group B"),  # as Gradescope knows them
        ("Jane Doe (JANE@example.org)", "Group B"),
        ("jane@example.org", "Group B"),  # the name of an account, as JupyterHub knows them
        ("Ann (x@example.org); Jane Doe (S1001)", "Group B"),
        ("x (S340934)", "ayse"),
        *((name, None) for name in ("x (340934)", "340934", "x (Moodle 340934)", "Doe, Jane")),
        *((name, None) for name in ("x (Canvas 34093)", "", "()")),
    ],
)
def test_students_of_other_sources_are_matched_by_what_is_theirs_alone(student, where, filled):
    if where is None:
        with pytest.raises(BookError, match="nobody can be filled in"):
            filled(CANVAS, [result(student, 11)])
        return
    made, _ = filled(CANVAS, [result(student, 11)])
    changed = set(made.splitlines()) - set(CANVAS.splitlines())
    assert len(changed) == 1 and where in changed.copy().pop() and ",11," in changed.pop()


@pytest.mark.parametrize(
    ("delimiter", "line", "encoding"), [(";", "\n", "latin-1"), ("\t", "\r\n", "utf-8")]
)
def test_every_way_to_write_it(delimiter, line, encoding, filled):
    rows = csv.reader(io.StringIO(CANVAS.replace("\ufeff", "").replace("\r\n", line), newline=""))
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator=line).writerows(rows)
    text = written.getvalue()
    made, _ = filled(text, CLASS, encoding)
    old, eve = (delimiter.join(words) for words in (["Group B", "", "5", ""], ["", "+1", "", ""]))
    expected = text.replace(f"{old}{delimiter}", f"{old}9.5{delimiter}")
    assert made == expected.replace(f"{eve}3{delimiter}", f"{eve}12{delimiter}")


BAD = {
    "": "neither a gradebook of Canvas nor a grading worksheet of Moodle",
    "a,b\nc,d\n": "neither a gradebook",
    HEADER: "no row 'Points Possible'; export the gradebook again, whole",
    CANVAS.replace(",5,12,", ",,,"): "0 columns for 'computing-devices'.*: none has points",
    CANVAS.replace("Puzzles", "Computing devices"): "2 columns for 'computing-devices'; name one",
    MOODLE.replace("12.00", ""): "no maximum in the column after 'Grade'",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_export_is_an_error_in_one_line(text, filled, tmp_path):
    with pytest.raises(BookError, match=BAD[text]) as error:
        filled(text, CLASS)
    assert len(str(error.value).splitlines()) == 1
    with pytest.raises(BookError, match="UTF-16, so a spreadsheet saved it"):
        filled(text or CANVAS, CLASS, "utf-16")


def test_what_is_missing_is_an_error_in_one_line(filled, tmp_path):
    with pytest.raises(BookError, match=r"no results; run 'make grade SUB.*' first"):
        fill_export(tmp_path / "export.csv", tmp_path)
    filled(CANVAS, CLASS)
    (tmp_path / "export.csv").unlink()
    with pytest.raises(BookError, match="cannot be read"):
        fill_export(tmp_path / "export.csv", tmp_path)


def test_a_student_who_hands_in_another_chapter_blocks_nobody(filled):
    stray = result("poe (Canvas 340938)", 3, of=5, assignment="puzzles")
    both = [CLASS[0], result(CLASS[0]["student"], 1, assignment="puzzles")]
    made, said = filled(CANVAS, [*both, *CLASS[1:4], stray])
    assert (
        ",5,9.5,41.67" in made and "not filled in: poe (Canvas 340938): handed in puzzles" in said
    )
    with pytest.raises(BookError, match="name one with --chapter: computing-devices, puzzles"):
        filled(CANVAS, [CLASS[0], stray])
    puzzles, _ = filled(CANVAS, [CLASS[0], stray], chapter="puzzles")
    assert puzzles == CANVAS.replace("A,,,N/A", "A,,3,N/A")


def test_feedback_goes_back_as_canvas_and_moodle_named_what_was_handed_in():
    page = "<body>\n<h1>Well done</h1>\n</body>"
    paths = {
        "doe (Canvas 34)": "doe_LATE_34_208_work-1.ipynb",
        "roe (Canvas 35)": "roe_35_209_work.zip",
        "Jane Doe (Moodle 12)": "Jane Doe_12_assignsubmission_file/work.ipynb",
        "Öz (Moodle 13)": "week 1/Öz_13_assignsubmission_file_work.ipynb",
        "ann": "ann.ipynb",
    }
    pages = [({"student": name, "path": path}, page) for name, path in paths.items()]
    canvas, moodle = (ZipFile(BytesIO(data)) for data in returned(pages).values())
    assert canvas.namelist() == ["doe_LATE_34_208_work-1.ipynb", "roe_35_209_work.zip"]
    notebook = nbformat.reads(canvas.read("doe_LATE_34_208_work-1.ipynb"), as_version=4)
    assert notebook.cells[0].source == "<h1>Well done</h1>\n"
    within = ZipFile(BytesIO(canvas.read("roe_35_209_work.zip")))
    assert within.namelist() == ["feedback.ipynb"]
    folders = ("Jane Doe_12_assignsubmission_file_", "Öz_13_assignsubmission_file_")
    assert moodle.namelist() == [f"{folder}/feedback.html" for folder in folders]
    assert moodle.read(moodle.namelist()[0]).decode() == page
    assert returned([({"student": "ann", "path": "ann.ipynb"}, page)]) == {}
