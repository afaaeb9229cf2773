"""Grades into exports of Canvas and Moodle: the grade of who was graded, and no other byte."""

import csv
import io
import json
import random
import re

import pytest

from tools.errors import BookError
from tools.grade.exchange import gradebooks
from tools.grade.exchange.gradebooks import encoding_of, fill_export, read_rows

HEADER = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Notes,Puzzles (4710),Computing devices (4711),"
    "Assignments Current Score,Final Score\r\n"
)
CANVAS = (
    "\ufeff"
    + HEADER
    + ",,,,,,Manual Posting,,,\r\n"
    + "    Points Possible,,,,,,5,12,(read only),(read only)\r\n"
    + '"Doe, Jane",340934,S1001,jane@example.org,"Group A, Group B",,5,,41.67,41.67\r\n'
    + '"Roe, ""Rick"" Richard",340935,S1002,roe@example.org,A,"two\nlines",,EX,,\r\n'
    + '"=""=cmd|\' /C calc\'!A0""",340936,S1003,eve@example.org,A,+1,,"3",,\r\n'
    + "Öztürk, Ayşe,340937,S340934,ayse@example.org,A,,,7,,\r\n".replace("Öztürk, Ayşe", "Öztürk")
    + "Poe,340938,S1005,poe@example.org,A,,,N/A,,\r\n"
    + "Student, Test,340939,,,A,,,,,\r\n".replace("Student, Test", '"Student, Test"')
)
MOODLE = (
    '\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum grade",'
    '"Grade can be changed","Last modified (submission)","Last modified (grade)",'
    '"Feedback comments"\n'
    '"Participant 123456","Jane Doe",jane@example.org,"Submitted for grading - ",,12.00,Yes,'
    '"Monday, 2 February 2026, 3:58 PM",-,"<p>old, kept</p>"\n'
    '"Participant 123457","Richard Roe",roe@example.org,"No submission",,12.00,Yes,-,-,\n'
    '"Participant 1234",@eve,eve@example.org,"Submitted for grading - ",5.00,12.00,Yes,-,-,\n'
)


def result(student, points, of=12, **changes):
    made = {"submission": f"id-{student}", "student": student, "status": "graded", "reason": None}
    return made | {"assignment": "computing-devices", "points": points, "of": of} | changes


def refused(student, reason):
    return result(student, 0, status="refused", reason=reason)


CLASS = [
    result("doejane (Canvas 340934)", 9.5),
    result("roerichard (Canvas 340935)", 12),
    result("eve (Canvas 340936)", 12),
    refused("ztrk (Canvas 340937)", "'hw.ipynb' has 500 MB; the limit is 20 MB"),
    result("poe (Canvas 340938)", 1),
    result("gone (Canvas 999)", 4),
]


def filled(tmp_path, capsys, text, results, encoding="utf-8", **options):
    """The filled export and what was printed."""
    (tmp_path / "results").mkdir(exist_ok=True)
    for number, each in enumerate(results):
        (tmp_path / "results" / f"{number}.json").write_text(json.dumps(each), encoding="utf-8")
    export = tmp_path / "export.csv"
    export.write_bytes(text.encode(encoding))
    capsys.readouterr()
    fill_export(export, tmp_path, **options)
    assert export.read_bytes() == text.encode(encoding)
    return (tmp_path / "export-filled.csv").read_bytes().decode(encoding), capsys.readouterr().out


def test_canvas_gets_the_grades_and_keeps_every_other_byte(tmp_path, capsys):
    text, said = filled(tmp_path, capsys, CANVAS, CLASS)
    expected = CANVAS.replace('Group B",,5,,41.67', 'Group B",,5,9.5,41.67')
    expected = expected.replace('+1,,"3",,', '+1,,"12",,')
    assert text == expected
    assert said.splitlines() == [
        "Canvas: 'Computing devices (4711)', 12 points",
        f"not filled in: gone (Canvas 999): is not in {tmp_path / 'export.csv'}",
        "replaced: eve (Canvas 340936): 3 by 12",
        "not filled in: poe (Canvas 340938): not assigned to them",
        "not filled in: roerichard (Canvas 340935): excused",
        "not filled in: ztrk (Canvas 340937): 'hw.ipynb' has 500 MB; the limit is 20 MB",
        "filled in: 2 of 6 students",
        "nothing handed in: Student, Test",
        "note: some cells begin as a formula does; the export had them",
        f"written: {tmp_path / 'export-filled.csv'}",
    ]


def test_moodle_gets_the_grades_and_keeps_every_other_byte(tmp_path, capsys):
    results = [result("Jane Doe (Moodle 123456)", 7), result("eve (Moodle 1234)", 0)]
    text, said = filled(tmp_path, capsys, MOODLE, results)
    expected = MOODLE.replace('grading - ",,12.00', 'grading - ",7,12.00')
    assert text == expected.replace('grading - ",5.00', 'grading - ",0')
    assert "Moodle: 'Grade', 12 points\n" in said and "filled in: 2 of 3 students" in said


def test_moodle_in_another_language(tmp_path, capsys):
    text = MOODLE.replace("Participant ", "Teilnehmer/in").replace("Maximum grade", "Bestwertung")
    text = text.replace("12.00", '"12,00"').replace(",Grade,", ",Bewertung,")
    results = [result("Jane Doe (Moodle 123456)", 7.5)]
    with pytest.raises(BookError, match=r"no column 'Grade'; name the one of .*; Bewertung; Best"):
        filled(tmp_path, capsys, text, results)
    made, _ = filled(tmp_path, capsys, text, results, column="Bewertung")
    assert made == text.replace('grading - ",,"12', 'grading - ",7.5,"12', 1)


def test_filling_twice_changes_nothing_more(tmp_path, capsys):
    once, _ = filled(tmp_path, capsys, CANVAS, CLASS)
    again, said = filled(tmp_path, capsys, once, CLASS)
    assert again == once and "replaced" not in said


@pytest.mark.parametrize("column", [None, "4711", "Computing devices", "Computing devices (4711)"])
def test_the_column_is_found_or_named(column, tmp_path, capsys):
    made, _ = filled(tmp_path, capsys, CANVAS, CLASS, column=column)
    assert ",5,9.5,41.67" in made


@pytest.mark.parametrize("column", ["Final Score", "Notes", "Section", "4712", "Computing"])
def test_no_other_column_is_written(column, tmp_path, capsys):
    with pytest.raises(BookError) as error:
        filled(tmp_path, capsys, CANVAS, CLASS, column=column)
    assert str(error.value).endswith(
        f"export.csv: 0 columns for '{column}'; name one with COLUMN=: Puzzles (4710); "
        "Computing devices (4711)"
    )
    assert not (tmp_path / "export-filled.csv").exists()


def test_two_columns_of_one_name_are_not_chosen_from(tmp_path, capsys):
    text = CANVAS.replace("Puzzles (4710)", "Computing devices (4709)")
    with pytest.raises(BookError, match="2 columns for 'computing-devices'; name one with COLUMN="):
        filled(tmp_path, capsys, text, CLASS)
    made, _ = filled(tmp_path, capsys, text, CLASS, column="4711")
    assert ",5,9.5,41.67" in made


def test_another_maximum_is_refused_or_scaled(tmp_path, capsys):
    results = [result("doejane (Canvas 340934)", 7, of=9)]
    with pytest.raises(BookError, match=r"counts 12 points, the exercises 9; .* SCALE=1"):
        filled(tmp_path, capsys, CANVAS, results)
    made, _ = filled(tmp_path, capsys, CANVAS, results, scale=True)
    assert ",5,9.33,41.67" in made


def test_two_results_of_one_student_are_not_chosen_from(tmp_path, capsys):
    again = result("doe (Canvas 340934)", 1, submission="another")
    made, said = filled(tmp_path, capsys, CANVAS, [*CLASS, again])
    assert ",5,,41.67" in made
    assert "two results, 'another' and 'id-doejane (Canvas 340934)'" in said


def test_points_that_wait_for_a_person_are_not_filled_in(tmp_path, capsys):
    parts = {"2": {"points": None, "of": 2}, "3": {"points": 1, "of": 2}}
    waiting = result("doejane (Canvas 340934)", 7, by_hand=parts)
    made, said = filled(tmp_path, capsys, CANVAS, [waiting, CLASS[2]])
    assert ",5,,41.67" in made and "exercise 2 waits for points in by-hand.csv" in said
    waiting["by_hand"]["2"]["points"] = 0
    made, _ = filled(tmp_path, capsys, CANVAS, [waiting])
    assert ",5,7,41.67" in made


def test_a_cell_that_says_no_number_is_replaced_by_name(tmp_path, capsys):
    text = CANVAS.replace('Group B",,5,,', 'Group B",,5,late,')
    made, said = filled(tmp_path, capsys, text, CLASS)
    assert ",5,9.5," in made and "replaced: doejane (Canvas 340934): late by 9.5" in said
    text = CANVAS.replace('Group B",,5,,', 'Group B",,5,"9,50",')
    assert "doejane" not in filled(tmp_path, capsys, text, CLASS)[1]


def test_a_row_that_ends_early_is_named(tmp_path, capsys):
    text = CANVAS + "Kant,340940,S1007,kant@example.org,A\r\n"
    made, said = filled(tmp_path, capsys, text, [*CLASS, result("kant (Canvas 340940)", 2)])
    assert made.endswith("Kant,340940,S1007,kant@example.org,A\r\n")
    assert "not filled in: kant (Canvas 340940): the row ends early" in said


def test_a_row_that_is_there_twice_gets_nothing(tmp_path, capsys):
    line = next(line for line in CANVAS.splitlines(keepends=True) if "340934," in line)
    made, said = filled(tmp_path, capsys, CANVAS + line, CLASS)
    assert made.count(line) == 2 and "doejane (Canvas 340934): is in several rows of" in said


@pytest.mark.parametrize(
    ("student", "where"),
    [
        ("Jane Doe (S1001)", "Group B"),  # as Gradescope knows them
        ("Jane Doe (JANE@example.org)", "Group B"),
        ("jane@example.org", "Group B"),  # the name of an account, as JupyterHub knows them
        ("Ann (x@example.org); Jane Doe (S1001)", "Group B"),
        ("x (S340934)", "ayse"),
    ],
)
def test_students_of_other_sources_are_matched(student, where, tmp_path, capsys):
    made, _ = filled(tmp_path, capsys, CANVAS, [result(student, 11)])
    old, new = (text.splitlines() for text in (CANVAS, made))
    changed = [after for before, after in zip(old, new, strict=True) if before != after]
    assert len(changed) == 1 and where in changed[0] and ",11," in changed[0]


@pytest.mark.parametrize(
    "student",
    ["x (340934)", "340934", "x (Moodle 340934)", "Doe, Jane", "x (Canvas 34093)", "", "()"],
)
def test_ids_of_one_system_are_not_taken_for_those_of_another(student, tmp_path, capsys):
    with pytest.raises(BookError, match="nobody can be filled in"):
        filled(tmp_path, capsys, CANVAS, [result(student, 11)])


def test_a_number_within_another_is_no_match(tmp_path, capsys):
    made, said = filled(
        tmp_path, capsys, MOODLE, [result("a (Moodle 1234)", 1), result("b (Moodle 23456)", 2)]
    )
    assert made == MOODLE.replace(",5.00,", ",1,") and "b (Moodle 23456): is not in" in said


@pytest.mark.parametrize("delimiter", [";", "\t"])
@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_every_way_to_write_it(delimiter, line, encoding, tmp_path, capsys):
    text = CANVAS.replace("\ufeff", "").replace("\r\n", line)
    rows = csv.reader(io.StringIO(text, newline=""))
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator=line).writerows(rows)
    text = written.getvalue()
    made, _ = filled(tmp_path, capsys, text, CLASS, encoding)
    old = f"Group B{delimiter}{delimiter}5{delimiter}"
    expected = text.replace(f"{old}{delimiter}", f"{old}9.5{delimiter}")
    eve = f"{delimiter}+1{delimiter}{delimiter}"
    assert made == expected.replace(f"{eve}3{delimiter}", f"{eve}12{delimiter}")


def test_rows_are_read_as_csv_reads_them():
    rng = random.Random(4711)
    for _ in range(300):
        rows = [
            ["".join(rng.choices('ab",\n\r =ü', k=rng.randrange(5))) for _ in range(3)]
            for _ in range(rng.randrange(1, 5))
        ]
        written = io.StringIO()
        quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        csv.writer(written, quoting=quoting).writerows(rows)
        text = written.getvalue()
        cells = list(read_rows(text, ","))
        assert [[cell.text for cell in row] for row in cells] == rows
        for cell in (cell for row in cells for cell in row if cell.text):
            [[said]] = csv.reader(io.StringIO(text[cell.start : cell.end], newline=""))
            assert said == cell.text


def test_what_we_write_is_no_formula():
    """The bite: a grade is a number, and only a number."""
    for points in (0, 7, 7.5, 1 / 3, 1e-9, 100.0):
        assert re.fullmatch(r"\d+(\.\d{1,2})?", gradebooks.shown(points))
    assert not re.fullmatch(r"\d+(\.\d{1,2})?", str(1 / 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "neither a gradebook of Canvas nor a grading worksheet of Moodle"),
        ("a,b\nc,d\n", "neither a gradebook"),
        (HEADER, "no row 'Points Possible'; export the gradebook again, whole"),
        (CANVAS.replace(",5,12,", ",,,"), "0 columns for 'computing-devices'.*: none has points"),
        (MOODLE.replace("12.00", ""), "no maximum in the column after 'Grade'"),
    ],
)
def test_what_is_no_export_is_an_error_in_one_line(text, expected, tmp_path, capsys):
    with pytest.raises(BookError, match=expected) as error:
        filled(tmp_path, capsys, text, CLASS)
    assert len(str(error.value).splitlines()) == 1


def test_what_is_missing_is_an_error_in_one_line(tmp_path, capsys):
    with pytest.raises(BookError, match=r"no results; run 'make grade SUB.*' first"):
        fill_export(tmp_path / "export.csv", tmp_path)
    with pytest.raises(BookError, match="results of 2 assignments; fill in one at a time"):
        filled(tmp_path, capsys, CANVAS, [*CLASS, result("x", 1, assignment="puzzles")])
    (tmp_path / "results" / f"{len(CLASS)}.json").unlink()
    (tmp_path / "export.csv").unlink()
    with pytest.raises(BookError, match="cannot be read"):
        fill_export(tmp_path / "export.csv", tmp_path)
    with pytest.raises(BookError, match="UTF-16, so a spreadsheet saved it"):
        encoding_of("Student".encode("utf-16"), tmp_path)
