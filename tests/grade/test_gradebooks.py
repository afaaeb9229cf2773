"""Grades into exports of Canvas and Moodle: the grade of who was graded, and no other byte."""

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
from coursework.grade.exchange.returned import returned
from coursework.grade.results import Grade
from tools.errors import BookError

CANVAS, MOODLE = (
    "\ufeff" + (DATA / f"{name}.csv").read_text(encoding="utf-8-sig").replace("\n", end)
    for name, end in (("canvas", "\r\n"), ("moodle", "\n"))
)
JANE = next(line for line in CANVAS.splitlines(keepends=True) if "Jane" in line)


def result(student, points, of=12, **changes):
    made = {"submission": f"id-{student}", "student": student, "reason": None}
    return (
        made | {"assignment": "computing-devices", "points": points, "of": of} | changes
    )


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
    """Fills an export; the filled one and what was printed. The export is left as it was."""

    def fill(text, results, **options):
        folder, export = tmp_path / "results", tmp_path / "export.csv"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, made in enumerate(results):
            (folder / f"{number}.json").write_text(json.dumps(made), encoding="utf-8")
        data = text if isinstance(text, bytes) else text.encode()
        export.write_bytes(data)
        fill_export(export, tmp_path, **options)
        assert export.read_bytes() == data
        made = (tmp_path / "export-filled.csv").read_bytes()
        return made if isinstance(
            text, bytes
        ) else made.decode(), capsys.readouterr().out

    return fill


def test_canvas_gets_the_grades_and_keeps_every_other_cell(filled, tmp_path):
    text, said = filled(CANVAS, CLASS)
    expected = CANVAS.replace('Group B",,5,,41.67', 'Group B",,5,9.5,41.67')
    assert text == expected.replace("+1,,3,,", "+1,,12,,")
    assert said.splitlines() == [
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
    again, said = filled(text, CLASS)
    assert again == text and "replaced" not in said
    _, said = filled(CANVAS.replace('B",,5,,', 'B",,5, ,'), CLASS)
    assert "replaced: doejane" not in said  # a space is no grade
    (tmp_path / "export.csv").unlink()
    with refused("cannot be read"):
        fill_export(tmp_path / "export.csv", tmp_path)


def test_of_those_who_handed_nothing_in_ten_are_named(filled):
    janes = []
    for n in range(11):
        ids = JANE.replace("340934", f"9{n:02}").replace("S1001", f"S{n}")
        janes.append(ids.replace("jane@", f"jane{n}@"))
    for count, more in ((9, ""), (10, " and 1 more"), (11, " and 2 more")):
        _, said = filled(CANVAS + "".join(janes[:count]), CLASS)
        named = "; ".join(["Student, Test", *["Doe, Jane"] * 9])
        assert f"nothing handed in: {named}{more}\n" in said


def test_moodle_gets_the_grades_and_keeps_every_other_cell(filled):
    results = [result("Jane Doe (Moodle 123456)", 7), result("eve (Moodle 1234)", 0)]
    text, said = filled(MOODLE, [*results, result("b (Moodle 23456)", 2)])
    expected = MOODLE.replace("grading - ,,12.00", "grading - ,7,12.00")
    assert text == expected.replace("grading - ,5.00", "grading - ,0")
    assert (
        "Moodle: 'Grade', 12 points\n" in said and "filled in: 2 of 3 students" in said
    )
    assert "b (Moodle 23456): is not in" in said  # a number within another is no match


def test_every_language_and_every_way_to_write_it(filled):
    text = MOODLE.replace("Identifier", "ID").replace("Participant ", "Teilnehmer/in")
    text = text.replace("12.00", '"12,00"').replace(",Grade,", ",Bewertung,")
    results = [result("Jane Doe (Moodle 123456)", 7.5)]
    with refused("0 columns for 'Grade'; name one with --column: Bewertung"):
        filled(text, results)
    made, _ = filled(text, results, column="Bewertung")
    assert made == text.replace('grading - ,,"12', 'grading - ,7.5,"12', 1)
    for delimiter, line, encoding in ((";", "\n", "latin-1"), ("\t", "\r\n", "utf-8")):

        def written(text, delimiter=delimiter, line=line, encoding=encoding):
            made, text = io.StringIO(), text.replace("\ufeff", "").replace("\r\n", line)
            rows = csv.reader(io.StringIO(text, newline=""))
            csv.writer(made, delimiter=delimiter, lineterminator=line).writerows(rows)
            return made.getvalue().encode(encoding)

        assert filled(written(CANVAS), CLASS)[0] == written(filled(CANVAS, CLASS)[0])


WAITS = {"by_hand": {"2": {"points": None, "of": 2}, "3": {"points": 1, "of": 2}}}
GIVEN = {"by_hand": {"2": {"points": 0, "of": 2}}}
TWICE = CANVAS.replace("Puzzles (4710)", "Computing-devices! (4709)")
STRAY = result("poe (Canvas 340938)", 3, of=5, assignment="puzzles")
AGAIN = result("doe (Canvas 340934)", 1, submission="another")
BOTH = result("doejane (Canvas 340934)", 1, assignment="puzzles")
ENDS_EARLY, LATE = (
    CANVAS.replace(",5,,41.67,41.67", ""),
    CANVAS.replace('B",,5,,', 'B",,5,late,'),
)
WORDS, NINTHS = (
    {"column": "computing Devices"},
    [result("doejane (Canvas 340934)", 7, of=9)],
)
ROW, LEFT = ",5,9.5,41.67", ",5,,41.67"
PENALTY = {"penalty": {"days": 1, "percent": 20, "points": 2.4}, "points_after": 9.6}
LATE_BY_A_DAY = [result("doejane (Canvas 340934)", 12, **PENALTY)]
STRANGER = result("gone (Canvas 999)", 0, reason=TOO_LARGE)
UNDATED = {"penalty": {"days": None, "percent": 0, "points": 0}, "points_after": 9.5}
JANES = [  # an export, the results, options, and what Jane's row and what is said must hold
    (TWICE, CLASS, {"column": "4711"}, ROW, ""),
    (CANVAS, CLASS, WORDS, ROW, ""),
    (
        CANVAS,
        NINTHS,
        {"scale": True},
        ",5,9.33,41.67",
        "",
    ),  # two decimals: never a formula
    (
        CANVAS,
        [*CLASS, AGAIN],
        {},
        LEFT,
        "two results, 'another' and 'id-doejane (Canvas 340934)'",
    ),
    (
        CANVAS,
        [CLASS[0] | WAITS, CLASS[2]],
        {},
        LEFT,
        "exercise 2 waits for points in by-hand.csv",
    ),
    (CANVAS, [CLASS[0] | GIVEN], {}, ROW, "filled in: 1"),  # a person gave nothing
    (LATE, CLASS, {}, ",5,9.5,", "(Canvas 340934): late by 9.5"),
    (
        CANVAS,
        LATE_BY_A_DAY,
        {},
        ",5,9.6,",
        "filled in after a penalty for being late: 1",
    ),
    (
        CANVAS,
        [CLASS[0] | UNDATED],
        {},
        ROW,
        "at an unknown time, so nothing was taken off: 1",
    ),
    (CANVAS, [CLASS[0], STRANGER], {}, ROW, f"gone (Canvas 999): {TOO_LARGE}"),
    (CANVAS + JANE, CLASS, {}, LEFT, "340934): is in several rows of"),
    (ENDS_EARLY, CLASS, {}, 'B",,,9.5\r', ""),
    (
        CANVAS,
        [BOTH, *CLASS[:4], STRAY],
        {},
        ROW,
        "poe (Canvas 340938): handed in puzzles",
    ),
    (CANVAS, [CLASS[0], STRAY], {"chapter": "puzzles"}, "A,,3,N/A", ""),
]


@pytest.mark.parametrize(("export", "results", "options", "row", "words"), JANES)
def test_what_is_not_plain_is_left_and_named(
    export, results, options, row, words, filled
):
    made, said = filled(export, results, **options)
    assert row in made and words in said


def test_students_of_other_sources_are_matched_by_what_is_theirs_alone(filled):
    for student, where in {
        "Jane Doe (S1001)": "Group B",  # as Gradescope knows them
        "Jane Doe (JANE@example.org)": "Group B",
        "jane@example.org": "Group B",  # the name of an account, as JupyterHub knows them
        "Ann (x@example.org); Jane Doe (S1001)": "Group B",
        "x (S340934)": "ayse",
    }.items():
        made, _ = filled(CANVAS, [result(student, 11)])
        [changed] = set(made.splitlines()) - set(CANVAS.splitlines())
        assert where in changed and ",11," in changed, student
    strangers = [
        "x (340934)",
        "340934",
        "x (Moodle 340934)",
        "Doe, Jane",
        "x (Canvas 34093)",
    ]
    for student in (*strangers, "Canvas 340934", "", "()"):
        with pytest.raises(BookError, match="nobody can be filled in"):
            filled(CANVAS, [result(student, 11)])


NO_POINTS = (
    "no column has points, as in a gradebook of Canvas or a grading worksheet of Moodle"
)
NAMES = "Puzzles (4710); Computing devices (4711)"
REFUSED = [  # an export, the results, options, and what the one line says
    *(
        (text, CLASS, {}, NO_POINTS)
        for text in ("", "a,b\nc,d\n", CANVAS.encode("utf-16"))
    ),
    (CANVAS.replace("Points Possible", ""), CLASS, {}, NO_POINTS),
    (MOODLE.replace("12.00", ""), CLASS, {}, NO_POINTS),
    (
        CANVAS.replace("Puzzles", "Computing devices"),
        CLASS,
        {},
        "2 columns for 'computing-devices",
    ),
    (
        CANVAS.replace(",5,12,", ",5,13,"),
        CLASS,
        {},
        "counts 13 points, the exercises 12; change",
    ),
    *(
        (CANVAS, CLASS, {"column": name}, NAMES)
        for name in ("Final Score", "4712", "Computing")
    ),
    (
        CANVAS,
        [CLASS[0], STRAY],
        {},
        "name one with --chapter: computing-devices, puzzles",
    ),
    (CANVAS, [], {}, "no results; run 'make grade SUB"),
    (CANVAS, [STRANGER | {"assignment": None}], {}, "name one with --chapter: none"),
    (CANVAS, [7], {}, "make grade"),
]


@pytest.mark.parametrize(("export", "results", "options", "words"), REFUSED)
def test_what_cannot_be_filled_in_is_an_error_in_one_line(
    export, results, options, words, filled
):
    with refused(words):
        filled(export, results, **options)


def test_feedback_goes_back_as_canvas_and_moodle_named_what_was_handed_in():
    page = "<body>\n<h1>Well done</h1>\n</body>"
    paths = {
        "doe (Canvas 34)": "doe_LATE_34_208_work-1.ipynb",
        "roe (Canvas 35)": "roe_35_209_work.zip",
        "Jane Doe (Moodle 12)": "Jane Doe_12_assignsubmission_file/work.ipynb",
        "Öz (Moodle 13)": "week 1/Öz_13_assignsubmission_file_work.ipynb",
        "ann": "ann.ipynb",
    }
    pages = [(Grade("", name, path), page) for name, path in paths.items()]
    canvas, moodle = (ZipFile(BytesIO(data)) for data in returned(pages).values())
    assert canvas.namelist() == ["doe_LATE_34_208_work-1.ipynb", "roe_35_209_work.zip"]
    notebook = nbformat.reads(canvas.read("doe_LATE_34_208_work-1.ipynb"), as_version=4)
    assert notebook.cells[0].source == "<h1>Well done</h1>\n"
    within = ZipFile(BytesIO(canvas.read("roe_35_209_work.zip")))
    assert within.namelist() == ["feedback.ipynb"]
    folders = ("Jane Doe_12_assignsubmission_file_", "Öz_13_assignsubmission_file_")
    assert moodle.namelist() == [f"{folder}/feedback.html" for folder in folders]
    assert moodle.read(moodle.namelist()[0]).decode() == page
    assert returned([(Grade("", "ann", "ann.ipynb"), page)]) == {}


@pytest.mark.full
def test_the_walk_ends_in_the_canvas_file_that_the_guide_shows():
    """The walk in the guide for instructors, run as it is written."""
    guide = (ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    told = re.search("<!-- the walk -->(.*)<!-- the end of the walk -->", guide, re.S)[
        1
    ]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", told, re.M | re.S)
    *others, last = "".join(text for kind, text in blocks if kind == "sh").splitlines()
    [shown] = [text for kind, text in blocks if kind == "text"]
    script = "\n".join(["set -eu", "{", *others, "} >&2", last])
    environment = {name: os.environ[name] for name in os.environ.keys() - {"MAKEFLAGS"}}
    options = {"cwd": ROOT, "env": environment, "capture_output": True, "text": True}
    run = subprocess.run(["bash", "-c", script], **options)
    assert run.returncode == 0, run.stderr
    assert "not graded: fontaineemil (Canvas 1005)" in run.stderr
    assert run.stdout == shown
