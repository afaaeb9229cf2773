"""What a person typed or was graded outlives a wrong key, another week, and a second hand-in."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
from classroom import RIGHT, SMALL, StandIn, edition, question, small
from helpers import ROOT, assert_one_line
from helpers import refused as is_refused
from test_judge import ON_CPU

from tools.grade import command
from tools.grade.grade import grade_one
from tools.grade.report import AGAIN, BY_HAND
from tools.grade.tables import read_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {"ann": RIGHT | ON_CPU, "bob": RIGHT | ON_CPU, "cy": {}}
WEEK_2 = small(
    name="week-2", questions=[question(1, "double", "Twice", SMALL["questions"][0]["tests"])]
)


@pytest.fixture
def grade(tmp_path, monkeypatch):
    """Grades files in this process as `make grade` would; KEYS are the fingerprints themselves."""
    monkeypatch.chdir(tmp_path)

    def engine(tasks):
        for task in tasks:
            yield task, grade_one(task, StandIn())

    def assignments_of(key, masters=None, choice=None):
        group = key or "book"
        return {made["name"]: made | {"class": group} for made in (SMALL, WEEK_2)}

    monkeypatch.setattr(command, "assignments_of", assignments_of)
    monkeypatch.setattr(command, "engine_for", lambda workers, address: engine)

    def graded(students=CLASS, key=SMALL["class"], assignment=SMALL, out=None, name="week.zip"):
        with zipfile.ZipFile(name, "w") as archive:
            for student, answers in students.items():
                text = answers if isinstance(answers, str) else edition(answers, assignment)
                text = text if isinstance(text, str) else json.dumps(text)
                archive.writestr(f"{student}.ipynb", text)
        command.grade_class(tmp_path / name, key, out=out)

    return graded


@pytest.fixture
def out(tmp_path):
    return tmp_path / "grades" / f"small-{SMALL['class']}"


def type_points(out, student, points, note=""):
    """Write points and a note as an instructor does, in a column of her own, too."""
    rows = read_table((out / BY_HAND).read_text(encoding="utf-8"))
    for row in rows:
        if row["student"] == student:
            row |= {"points": points, "note": note, "mine": "ask her"}
    lines = [",".join(f'"{row.get(name, "")}"' for name in rows[0] | {"mine": ""}) for row in rows]
    header = ",".join(rows[0] | {"mine": ""})
    (out / BY_HAND).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def by_hand(out):
    rows = read_table((out / BY_HAND).read_text(encoding="utf-8"))
    return {row["student"]: (row["points"], row["note"], row.get("mine", "")) for row in rows}


def totals(out):
    rows = read_table((out / "grades.csv").read_text(encoding="utf-8"))
    return {row["student"]: row["total"] for row in rows}


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("key", "words"),
    [(None, "no key is given"), ("f" * 12, f"the key is that of class {'f' * 12}")],
)
def test_another_key_or_none_grades_nothing_and_touches_nothing(grade, out, key, words):
    grade(out=out)
    type_points(out, "ann", "2")
    before = files(out)
    with is_refused("CLASS: ", f"made for class {SMALL['class']}", words, "make grade CLASS=..."):
        grade(key=key, out=out)
    assert files(out) == before
    grade(out=out)
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "0"}


def test_the_books_own_edition_needs_no_key_and_no_edition_at_all_asks_for_one(grade, tmp_path):
    grade(key=None, assignment=small(**{"class": "book"}))
    assert totals(tmp_path / "grades" / "small-book")["ann"] == "9"
    lost = edition(RIGHT)
    del lost["metadata"]["assignment"]
    with is_refused("CLASS: ", "make grade CLASS=...", "for the book's own edition: CLASS=book"):
        grade({"ann": json.dumps(lost)}, key=None)


def test_all_refused_is_an_error_that_touches_nothing(grade, out):
    grade(out=out)
    type_points(out, "ann", "2")
    before = files(out)
    with is_refused("none of 2 submissions can be graded", "nothing is written", "ann: "):
        grade({"ann": "{", "bob": "no notebook"})
    assert files(out) == before


def test_week_2_has_the_name_of_week_1_and_a_folder_of_its_own(grade, out, tmp_path):
    grade()
    type_points(out, "ann", "2")
    before = files(out)
    grade(assignment=WEEK_2)
    assert files(out) == before
    assert totals(tmp_path / "grades" / f"week-2-{SMALL['class']}") == {
        "ann": "3",
        "bob": "3",
        "cy": "0",
    }


def test_week_2_in_the_folder_of_week_1_is_graded_beside_it_and_another_class_is_refused(
    grade, out
):
    grade()
    type_points(out, "ann", "2")
    grade(assignment=WEEK_2, out=out)
    assert totals(out) == {"ann": "14", "bob": "12", "cy": "0"}
    before, other = files(out), small(**{"class": "f" * 12})
    with is_refused("OUT: ", f"holds grades of 'small' for class {SMALL['class']}"):
        grade(key="f" * 12, assignment=other, out=out)
    assert files(out) == before


def test_one_student_graded_again_leaves_all_others_and_keeps_her_points(grade, out):
    grade()
    type_points(out, "ann", "2", "well said")
    type_points(out, "bob", "1")
    feedback = files(out / "feedback")
    grade({"ann": RIGHT | ON_CPU | {3: "zeros = 1"}}, name="again.zip")
    assert totals(out) == {"ann": "8", "bob": "10", "cy": "0"}
    assert by_hand(out) == {
        "ann": ("2", f"well said; {AGAIN}", "ask her"),
        "bob": ("1", "", "ask her"),
        "cy": ("", "", ""),
    }
    assert AGAIN in (out / "review.html").read_text(encoding="utf-8")
    assert len(files(out / "feedback")) == len(feedback) == 3
    kept = sorted(path.name.split(".")[0] for path in (out / "earlier").iterdir())
    [ann] = {path.stem for path in feedback if b"ann" in path.read_bytes()}
    assert {ann, "grades"} <= set(kept)
    type_points(out, "ann", "1")  # read again, the note taken away
    grade()
    assert totals(out)["ann"] == "10" and by_hand(out)["ann"] == ("1", AGAIN, "ask her")


def test_one_notebook_alone_is_graded_as_it_was_among_all(grade, out, tmp_path):
    grade()
    (tmp_path / "cy.ipynb").write_text(json.dumps(edition(RIGHT | ON_CPU)))
    command.grade_class(tmp_path / "cy.ipynb", SMALL["class"])
    assert totals(out) == {"ann": "9", "bob": "9", "cy": "9"}


def test_a_name_that_only_looks_the_same_replaces_nobody(grade, out):
    grade({"Ann": RIGHT | ON_CPU})
    grade({"Ann\u200b": {}})
    kept = [json.loads(path.read_text()) for path in out.glob("results/*.json")]
    assert sorted((one["student"], one["points"]) for one in kept) == [("Ann", 0), ("Ann", 9)]
    assert len(list(out.glob("feedback/*.html"))) == 2
    rows = read_table((out / "grades.csv").read_text(encoding="utf-8"))
    assert sorted((row["student"], row["total"]) for row in rows) == [("Ann", "0"), ("Ann", "9")]


def test_a_file_that_canvas_renames_is_the_same_students(grade, out):
    grade({"doejane_340934_208490284_small": RIGHT | ON_CPU, "roe_1_2_small": {}})
    type_points(out, "doejane (Canvas 340934)", "2")
    grade({"doejane_340934_208490285_small-1": RIGHT | ON_CPU | {2: "total = 1"}})
    assert totals(out) == {"doejane (Canvas 340934)": "8", "roe (Canvas 1)": "0"}
    assert len(files(out / "results")) == len(files(out / "feedback")) == 2


def test_a_file_that_cannot_be_read_takes_nothing_from_the_one_before(grade, out):
    grade(CLASS | {"dee": "{"})
    type_points(out, "ann", "2")
    grade({"ann": "{", "dee": RIGHT | ON_CPU})
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "0", "dee": "9"}
    rows = read_table((out / "grades.csv").read_text(encoding="utf-8"))
    assert [row["student"] for row in rows if row["not graded because"]] == ["ann"]


def test_what_was_typed_for_nobody_stays(grade, out):
    grade()
    with (out / BY_HAND).open("a", encoding="utf-8") as table:
        table.write("zoe,zoe-1,small,3,Reads well.,2,1,on paper\r\n")
    grade()
    assert by_hand(out)["zoe"][:2] == ("1", "on paper")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_loses_nothing(grade, out, monkeypatch, error):
    grade()
    type_points(out, "ann", "2")
    before = files(out)

    def full(path, data):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        with (
            pytest.raises(KeyboardInterrupt)
            if isinstance(error, KeyboardInterrupt)
            else is_refused("cannot be written (No space left on device)")
        ):
            grade(CLASS | {"cy": RIGHT | ON_CPU}, name="more.zip")
    assert files(out) == before
    grade(CLASS | {"cy": RIGHT | ON_CPU})
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "9"}


def tool(*arguments, **variables):
    names = ("SUBMISSIONS", "CLASS", "OUT", "MASTERS", "WORKERS", "DASK", "SOURCE", "CHAPTER")
    environment = {name: text for name, text in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, "-m", "tools", *arguments],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["grade"], {"SUBMISSIONS": ""}, "SUBMISSIONS: name the folder or zip"),
        (
            ["grade"],
            {"SUBMISSIONS": "~/it's $HOME", "CLASS": "it's a $key"},
            "/it's $HOME: no such file",
        ),
        (["grade", "x"], {"WORKERS": "many"}, "WORKERS=many: name a number of processes"),
        (["release"], {"CHAPTER": "nowhere"}, "CHAPTER=nowhere: no such master"),
        (["fill"], {}, "EXPORT: name"),
        (["fill", "a.csv"], {}, "GRADES: name"),
        (["example"], {}, "CHAPTER: name"),
        (["gradescope"], {}, "CHAPTER: name"),
    ],
)
def test_what_is_missing_is_asked_for_in_one_line(arguments, variables, words):
    run = tool(*arguments, **variables)
    assert run.returncode == 1 and "~" not in run.stderr
    assert_one_line(run.stderr, f"error: {'' if words.startswith('/') else words}", words)
