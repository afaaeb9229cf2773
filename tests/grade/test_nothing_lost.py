"""What a person typed or was graded outlives a wrong key, another week, and a second hand-in."""

import csv
import json
import sys

import pytest
from browsing import INSTALL, chromium, chromium_program
from classroom import HERE, LOST, SMALL, contents, edition, small, table, totals
from helpers import ROOT, assert_one_line, refused, run_tool

from coursework.grade import command
from coursework.grade.by_hand import AGAIN, BY_HAND

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {"ann": HERE, "bob": HERE, "cy": {}}
WEEK_2 = small(name="week-2", exercises=SMALL.exercises[:1])


@pytest.fixture
def out(grade, tmp_path):
    """The grades of the class, with two points that Ann got by hand."""
    grade.assignments = [SMALL, WEEK_2]
    grade(CLASS)
    type_points(tmp_path / "out", "ann", "2")
    return tmp_path / "out"


def type_points(out, student, points, note=""):
    """Write points and a note as an instructor does, in a column of her own, too."""
    rows = table(out, BY_HAND)
    for row in rows:
        if row["student"] == student:
            row |= {"points": points, "note": note, "mine": "=ask"}
    with (out / BY_HAND).open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, rows[0] | {"mine": ""})
        written.writeheader()
        written.writerows(rows)


def by_hand(out):
    return {
        row["student"]: (row["points"], row["note"], row["mine"])
        for row in table(out, BY_HAND)
    }


def test_what_cannot_be_graded_here_touches_nothing(grade, out):
    own, before = SMALL.group, contents(out)
    elsewhere = {"ann": edition(HERE, small(group="f" * 12))}
    for students, key, *words in [
        (
            CLASS,
            None,
            f"CLASS: these notebooks were made for class {own}",
            "make grade CLASS=...",
        ),
        (CLASS, "f" * 12, "CLASS: ", f"the key is that of class {'f' * 12}"),
        ({"ann": LOST}, None, "CLASS: ", "the book's own edition: CLASS=book"),
        ({"ann": "{"}, own, "none of 1 submissions can be graded", "ann: "),
        (elsewhere, "f" * 12, "OUT: ", f"holds grades of 'small' for class {own}"),
    ]:
        with refused(*words):
            grade(students, key)
        assert contents(out) == before
    grade(CLASS)
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "0"}


def test_each_week_and_the_books_own_edition_have_folders_of_their_own(
    grade, out, tmp_path
):
    grade(CLASS, assignment=WEEK_2, out=None)
    grade(CLASS, assignment=small(group="book"), key=None, out=None)
    assert totals(tmp_path / "grades" / "small-book")["ann"] == "9"
    week_2 = tmp_path / "grades" / f"week-2-{SMALL.group}"
    assert totals(week_2) == {"ann": "3", "bob": "3", "cy": "0"}
    grade(CLASS, assignment=WEEK_2)  # or are graded beside one another
    assert totals(out) == {"ann": "14", "bob": "12", "cy": "0"}


def test_one_student_graded_again_leaves_all_others_and_keeps_her_points(grade, out):
    type_points(out, "ann", "2", "well said")
    type_points(out, "bob", "1")
    feedback = contents(out / "feedback")
    again = {"ann": HERE | {3: "zeros = 1"}}
    grade.stop_after = 0
    with pytest.raises(KeyboardInterrupt):  # the note is written before all else
        grade(again)
    grade.stop_after = None
    grade(again)
    assert totals(out) == {"ann": "8", "bob": "10", "cy": "0"}
    assert by_hand(out) == {
        "ann": ("2", f"well said; {AGAIN}", "=ask"),
        "bob": ("1", "", "=ask"),
        "cy": ("", "", ""),
    }
    assert AGAIN in (out / "review.html").read_text(encoding="utf-8")
    [ann] = [name for name, page in feedback.items() if b"ann" in page]
    page = (out / "feedback" / ann).read_text(encoding="utf-8")
    assert "well said" in page and AGAIN not in page
    changed = {
        name
        for name, page in contents(out / "feedback").items()
        if feedback[name] != page
    }
    assert changed == {
        ann,
        *(name for name, page in feedback.items() if b"bob" in page),
    }
    kept = {path.name.split(".")[0] for path in (out / "earlier").iterdir()}
    assert {ann.removesuffix(".html"), "grades"} <= kept
    type_points(out, "ann", "1")  # read again, the note taken away
    grade(CLASS)
    assert totals(out)["ann"] == "10"
    assert by_hand(out)["ann"] == ("1", AGAIN, "=ask")


def test_a_file_that_canvas_renames_is_the_same_students(grade, tmp_path):
    out = tmp_path / "out"
    grade({"doejane_340934_208490284_small": HERE, "roe_LATE_1_2_small": {}})
    type_points(out, "doejane (Canvas 340934)", "2")
    grade({"doejane_340934_208490285_small-1": HERE | {2: "total = 1"}})
    assert totals(out) == {"doejane (Canvas 340934)": "8", "roe (Canvas 1)": "0"}
    assert [row["late"] for row in table(out)] == ["", "late"]
    assert len(contents(out / "results")) == len(contents(out / "feedback")) == 2


def test_a_file_that_cannot_be_read_takes_nothing_from_the_one_before(
    grade, out, tmp_path
):
    grade({"bob": HERE, "dee": "{"})
    (tmp_path / "dee.ipynb").write_text(json.dumps(edition(HERE)))
    command.grade_class(
        tmp_path / "dee.ipynb", SMALL.group, out=out
    )  # one notebook alone
    grade({"ann": "{", "bob": HERE})
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "0", "dee": "9"}
    rows = table(out)
    assert [row["student"] for row in rows if row["not graded because"]] == ["ann"]


@pytest.fixture
def zoe(out):
    """Points for somebody of whom there is no result."""
    with (out / BY_HAND).open("a", encoding="utf-8") as rows:
        rows.write('"zoe","zoe-1","small","3","Reads well.","2","1","on paper",""\n')


@pytest.mark.usefixtures("zoe")
def test_what_was_typed_for_nobody_stays_and_a_lost_table_comes_from_the_results(
    grade, out
):
    grade(CLASS)
    assert by_hand(out)["zoe"][:2] == ("1", "on paper")
    (out / BY_HAND).unlink()
    grade(CLASS)
    assert totals(out)["ann"] == "11"


@pytest.mark.usefixtures("zoe")
def test_what_is_typed_on_the_page_is_kept_and_read_again(grade, out):
    if chromium_program() is None:
        pytest.skip(f"no Chromium: {INSTALL}")
    grade(CLASS)
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto((out / "by-hand.html").as_uri())
        tab.locator("input").first.fill("2,5")
        tab.get_by_role("button").click()
        assert (
            tab.locator("output").inner_text().startswith("Not saved. Write a number")
        )
        tab.locator("input").first.fill("1,5")
        tab.locator("textarea").first.fill('=good "so"')
        tab.reload()
        with tab.expect_download() as saved:
            tab.get_by_role("button").click()
        saved.value.save_as(out / BY_HAND)
    grade(CLASS)
    ann, others = (
        ("1,5", '=good "so"', "=ask"),
        dict.fromkeys(["bob", "cy"], ("", "", "")),
    )
    assert by_hand(out) == {"ann": ann, **others, "zoe": ("1", "on paper", "")}
    assert totals(out)["ann"] == "10.5"


def test_points_for_an_exercise_that_the_edition_has_no_more_stay_and_stop_nobody(
    grade, out
):
    fewer = small(exercises=SMALL.exercises[:2])
    grade.assignments = [fewer, WEEK_2]
    new = {"ann": HERE | {1: "double = 1"}, "bob": HERE}
    grade(new, assignment=fewer)  # cy's result is of the edition before
    assert totals(out) == {"ann": "3", "bob": "6", "cy": "0"}
    assert by_hand(out) == {"ann": ("2", "", "=ask")}
    (out / BY_HAND).unlink()  # nor does what the results alone know
    grade.assignments = [SMALL, WEEK_2]
    grade(CLASS)
    type_points(out, "ann", "2")
    grade(CLASS)
    (out / BY_HAND).unlink()
    grade.assignments = [fewer, WEEK_2]
    grade({"bob": HERE}, assignment=fewer)
    assert [row["points"] for row in table(out, BY_HAND)] == ["2"]
    grade.assignments = [SMALL, WEEK_2]
    grade(CLASS)
    assert totals(out)["ann"] == "11"


def test_points_by_hand_that_cannot_be(grade, out):
    for said in ("many", "3", "-1", "nan"):
        type_points(out, "ann", said)
        with refused(
            f"{BY_HAND}: row 2 gives ann '{said}' points; write a number from 0 to 2"
        ):
            grade(CLASS)
    (out / BY_HAND).write_text("a;b\n1;2\n")
    with refused(BY_HAND, "save it with commas"):
        grade(CLASS)


def test_a_full_disk_loses_nothing(grade, out, monkeypatch):
    before = contents(out)

    def full(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        with refused("cannot be written (No space left on device)"):
            grade(CLASS | {"cy": HERE})
    assert contents(out) == before
    grade(CLASS | {"cy": HERE})
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "9"}


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (
            "grade",
            {"SUBMISSIONS": ""},
            "SUBMISSIONS: name the folder or zip downloaded: SUBMISSIONS=submissions.zip",
        ),
        (
            "grade",
            {"SUBMISSIONS": "~/it's $HOME", "CLASS": "it's a $key"},
            "/it's $HOME: no such",
        ),
        (
            "grade x",
            {"WORKERS": "many"},
            "error: WORKERS=many: name a number of processes",
        ),
        (
            "release",
            {"CHAPTER": "nowhere"},
            "error: CHAPTER=nowhere: no exercises for 'nowhere'",
        ),
        ("fill", {}, "error: EXPORT: name"),
        ("fill a.csv", {}, "error: GRADES: name"),
        ("example", {}, "error: CHAPTER: name"),
        ("gradescope", {}, "error: CHAPTER: name"),
    ],
)
def test_what_is_missing_is_asked_for_in_one_line(
    arguments, variables, words, monkeypatch
):
    for name in (
        "SUBMISSIONS",
        "CLASS",
        "OUT",
        "MASTERS",
        "WORKERS",
        "DASK",
        "SOURCE",
        "CHAPTER",
    ):
        monkeypatch.delenv(name, raising=False)
    run = run_tool(ROOT, *arguments.split(), **variables)
    assert run.returncode == 1 and "~" not in run.stderr
    assert_one_line(run.stderr, words)


def test_a_file_in_the_place_of_the_folder_of_grades_is_named_as_one(grade, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with refused(f"OUT: {tmp_path / 'mine'} is a file, and grades are written into"):
        grade({"ann": HERE}, out="mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_grades_go_into_no_folder_that_holds_files_of_others(grade, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "grades.csv").write_text("mine")
    with refused(f"OUT: {folder} holds files that no grading wrote (grades.csv)"):
        grade({"ann": HERE}, out="mine")
    assert contents(folder) == {"grades.csv": b"mine"}
