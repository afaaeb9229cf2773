"""Points and grades outlive a wrong key, another week, and a second hand-in."""

import json
import sys

import pytest
from browsing import INSTALL, chromium, chromium_program
from classroom import (
    ANSWERS,
    SMALL,
    UNNAMED,
    contents,
    csv_text,
    edition,
    small,
    table,
    totals,
)
from helpers import ROOT, assert_one_line, refused, run_tool

from coursework.grade import command
from coursework.grade.by_hand import AGAIN, BY_HAND

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {"ann": ANSWERS, "bob": ANSWERS, "cy": {}}
CY_ANEW = CLASS | {"cy": ANSWERS}
WEEK_2 = small(name="week-2", exercises=SMALL.exercises[:1])
ANOTHER_CLASS = "f" * 12


@pytest.fixture
def graded(grade, out):
    """The grades of the class, with two points that Ann got by hand."""
    grade.assignments = [SMALL, WEEK_2]
    grade(CLASS)
    type_points(out, "ann", "2")
    return out


def type_points(out, student, points, note=""):
    """Save points and a note as an instructor does, who has a column of her own."""
    rows = table(out, BY_HAND)
    for row in rows:
        row.setdefault("mine", "")
        if row["student"] == student:
            row |= {"points": points, "note": note, "mine": "=ask"}
    (out / BY_HAND).write_text(csv_text(rows), encoding="utf-8", newline="")


def by_hand(out):
    """Return points, note and the instructor's own column by student."""
    entries = {}
    for row in table(out, BY_HAND):
        entries[row["student"]] = (row["points"], row["note"], row["mine"])
    return entries


def assert_refused(grade, out, students, key, *words):
    """Assert that grading is refused and touches nothing, and that the class is graded still."""
    before = contents(out)
    with refused(*words):
        grade(students, key)
    assert contents(out) == before

    grade(CLASS)
    assert totals(out) == {"ann": "11", "bob": "9", "cy": "0"}


def test_notebooks_of_a_class_need_its_key(grade, graded):
    made_for = f"CLASS: these notebooks were made for class {SMALL.group}"
    assert_refused(grade, graded, CLASS, None, made_for, "make grade CLASS=...")


def test_the_key_of_another_class_is_refused(grade, graded):
    other = f"the key is that of class {ANOTHER_CLASS}"
    assert_refused(grade, graded, CLASS, ANOTHER_CLASS, "CLASS: ", other)


def test_a_notebook_that_names_no_class_needs_one(grade, graded):
    own_edition = "the book's own edition: CLASS=book"
    assert_refused(grade, graded, {"ann": UNNAMED}, None, "CLASS: ", own_edition)


def test_a_class_of_broken_notebooks_is_refused(grade, graded):
    none = "none of 1 submissions can be graded"
    assert_refused(grade, graded, {"ann": "{"}, SMALL.group, none, "ann: ")


def test_another_class_needs_another_folder(grade, graded):
    students = {"ann": edition(ANSWERS, small(group=ANOTHER_CLASS))}
    holds = f"holds grades of 'small' for class {SMALL.group}"
    assert_refused(grade, graded, students, ANOTHER_CLASS, "OUT: ", holds)


def test_each_week_has_a_folder_of_its_own(grade, graded, tmp_path):
    grade(CLASS, assignment=WEEK_2, out=None)
    grade(CLASS, assignment=small(group="book"), key=None, out=None)

    assert totals(tmp_path / "grades" / "small-book")["ann"] == "9"
    week_2 = tmp_path / "grades" / f"week-2-{SMALL.group}"
    assert totals(week_2) == {"ann": "3", "bob": "3", "cy": "0"}


def test_two_weeks_are_graded_in_one_folder(grade, graded):
    grade(CLASS, assignment=WEEK_2)
    assert totals(graded) == {"ann": "14", "bob": "12", "cy": "0"}


ANN_ANEW = {"ann": ANSWERS | {3: "zeros = 1"}}


@pytest.fixture
def feedback_before(grade, graded):
    """The pages of feedback of the class, before Ann was graded again."""
    type_points(graded, "ann", "2", "well said")
    type_points(graded, "bob", "1")
    pages = contents(graded / "feedback")
    grade(ANN_ANEW)
    return pages


@pytest.mark.usefixtures("feedback_before")
def test_a_student_graded_again_keeps_her_points(graded):
    assert totals(graded) == {"ann": "8", "bob": "10", "cy": "0"}
    assert by_hand(graded) == {
        "ann": ("2", f"well said; {AGAIN}", "=ask"),
        "bob": ("1", "", "=ask"),
        "cy": ("", "", ""),
    }
    assert AGAIN in (graded / "review.html").read_text(encoding="utf-8")


def test_the_note_of_a_hand_in_is_written_first_and_once(grade, graded):
    type_points(graded, "ann", "2", "well said")
    grade.stop_after = 0
    with pytest.raises(KeyboardInterrupt):
        grade(ANN_ANEW)
    noted = ("2", f"well said; {AGAIN}", "=ask")
    assert by_hand(graded)["ann"] == noted

    grade.stop_after = None
    grade(ANN_ANEW)
    assert by_hand(graded)["ann"] == noted


def page_of(student, pages):
    """Return the name of the page of feedback on which a student's name stands."""
    [name] = [name for name, page in pages.items() if student.encode() in page]
    return name


def test_feedback_is_written_where_it_changed(graded, feedback_before):
    ann = page_of("ann", feedback_before)
    bob = page_of("bob", feedback_before)
    pages = contents(graded / "feedback")
    changed = {name for name in pages if pages[name] != feedback_before[name]}
    # Bob's points by hand are new.
    assert changed == {ann, bob}
    assert b"well said" in pages[ann]
    assert AGAIN.encode() not in pages[ann]
    kept = {path.name.split(".")[0] for path in (graded / "earlier").iterdir()}
    assert kept >= {ann.removesuffix(".html"), "grades"}


@pytest.mark.usefixtures("feedback_before")
def test_a_note_taken_away_comes_with_the_next_hand_in(grade, graded):
    type_points(graded, "ann", "1")
    grade(CLASS)
    assert totals(graded)["ann"] == "10"
    assert by_hand(graded)["ann"] == ("1", AGAIN, "=ask")


def test_a_file_that_canvas_renames_is_the_same_students(grade, out):
    grade({"doejane_340934_208490284_small": ANSWERS, "roe_LATE_1_2_small": {}})
    type_points(out, "doejane (Canvas 340934)", "2")

    grade({"doejane_340934_208490285_small-1": ANSWERS | {2: "total = 1"}})

    assert totals(out) == {"doejane (Canvas 340934)": "8", "roe (Canvas 1)": "0"}
    assert [row["late"] for row in table(out)] == ["", "late"]
    assert len(contents(out / "results")) == 2
    assert len(contents(out / "feedback")) == 2


def test_an_unreadable_file_takes_nothing_from_the_one_before(grade, graded, tmp_path):
    grade({"bob": ANSWERS, "dee": "{"})
    notebook = tmp_path / "dee.ipynb"
    notebook.write_text(json.dumps(edition(ANSWERS)))
    command.grade_class(notebook, SMALL.group, out=graded)

    grade({"ann": "{", "bob": ANSWERS})

    assert totals(graded) == {"ann": "11", "bob": "9", "cy": "0", "dee": "9"}
    rows = table(graded)
    assert [row["student"] for row in rows if row["not graded because"]] == ["ann"]


@pytest.fixture
def zoe(graded):
    """Points for somebody of whom there is no result."""
    with (graded / BY_HAND).open("a", encoding="utf-8") as file:
        file.write('"zoe","zoe-1","small","3","Reads well.","2","1","on paper",""\n')


@pytest.mark.usefixtures("zoe")
def test_points_typed_for_nobody_stay(grade, graded):
    grade(CLASS)
    assert by_hand(graded)["zoe"] == ("1", "on paper", "")


def test_a_lost_table_comes_from_the_results(grade, graded):
    grade(CLASS)
    (graded / BY_HAND).unlink()
    grade(CLASS)
    assert totals(graded)["ann"] == "11"


@pytest.mark.usefixtures("zoe")
def test_points_typed_on_the_page_are_kept_and_read(grade, graded):
    if chromium_program() is None:
        pytest.skip(f"no Chromium: {INSTALL}")
    grade(CLASS)

    with chromium() as browser:
        tab = browser.new_page()
        tab.goto((graded / "by-hand.html").as_uri())
        points = tab.locator("input").first
        save = tab.get_by_role("button")
        points.fill("2,5")
        save.click()
        message = tab.locator("output").inner_text()
        assert message.startswith("Not saved. Write a number")

        points.fill("1,5")
        tab.locator("textarea").first.fill('=good "so"')
        tab.reload()
        with tab.expect_download() as download:
            save.click()
        download.value.save_as(graded / BY_HAND)
    grade(CLASS)

    assert by_hand(graded) == {
        "ann": ("1,5", '=good "so"', "=ask"),
        "bob": ("", "", ""),
        "cy": ("", "", ""),
        "zoe": ("1", "on paper", ""),
    }
    assert totals(graded)["ann"] == "10.5"


FEWER = small(exercises=SMALL.exercises[:2])


def test_points_for_an_exercise_that_is_gone_stay(grade, graded):
    grade.assignments = [FEWER, WEEK_2]
    students = {"ann": ANSWERS | {1: "double = 1"}, "bob": ANSWERS}
    # The result of cy is of the edition before.
    grade(students, assignment=FEWER)

    assert totals(graded) == {"ann": "3", "bob": "6", "cy": "0"}
    assert by_hand(graded) == {"ann": ("2", "", "=ask")}


def test_points_that_the_results_alone_know_stay(grade, graded):
    grade(CLASS)
    (graded / BY_HAND).unlink()
    grade.assignments = [FEWER, WEEK_2]
    grade({"bob": ANSWERS}, assignment=FEWER)
    assert [row["points"] for row in table(graded, BY_HAND)] == ["2"]

    grade.assignments = [SMALL, WEEK_2]
    grade(CLASS)
    assert totals(graded)["ann"] == "11"


@pytest.mark.parametrize("points", ["many", "3", "-1", "nan"])
def test_points_out_of_range_are_refused(points, grade, graded):
    type_points(graded, "ann", points)
    advice = "write a number from 0 to 2"
    with refused(f"{BY_HAND}: row 2 gives ann '{points}' points; {advice}"):
        grade(CLASS)


def test_a_table_of_other_columns_is_refused(grade, graded):
    (graded / BY_HAND).write_text("a;b\n1;2\n")
    with refused(BY_HAND, "save it with commas"):
        grade(CLASS)


def test_a_full_disk_loses_nothing(grade, graded, monkeypatch):
    before = contents(graded)

    def refuse_to_write(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", refuse_to_write)
        with refused("cannot be written (No space left on device)"):
            grade(CY_ANEW)
    assert contents(graded) == before

    grade(CY_ANEW)
    assert totals(graded) == {"ann": "11", "bob": "9", "cy": "9"}


VARIABLES = "SUBMISSIONS CLASS OUT MASTERS WORKERS DASK SOURCE CHAPTER".split()
# A command, its variables, and words of the refusal.
INCOMPLETE = [
    (
        "grade",
        {"SUBMISSIONS": ""},
        "SUBMISSIONS: name the folder or zip that was downloaded: SUBMISSIONS=submissions.zip",
    ),
    (
        "grade",
        {"SUBMISSIONS": "~/it's $HOME", "CLASS": "it's a $key"},
        "/it's $HOME: no such",
    ),
    ("grade x", {"WORKERS": "many"}, "WORKERS=many: name a number of processes"),
    ("release", {"CHAPTER": "nowhere"}, "CHAPTER=nowhere: no exercises for 'nowhere'"),
    ("fill", {}, "error: EXPORT: name"),
    ("fill a.csv", {}, "error: GRADES: name"),
    ("example", {}, "error: CHAPTER: name"),
    ("gradescope", {}, "error: CHAPTER: name"),
]


@pytest.mark.parametrize(("command_line", "variables", "words"), INCOMPLETE)
def test_a_missing_argument_is_asked_for_in_one_line(
    command_line, variables, words, monkeypatch
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    run = run_tool(ROOT, *command_line.split(), **variables)
    assert run.returncode == 1
    assert_one_line(run.stderr, words)
    assert "~" not in run.stderr


def test_a_file_in_place_of_the_folder_is_named(grade, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with refused(f"OUT: {tmp_path / 'mine'} is a file, and grades are written into"):
        grade({"ann": ANSWERS}, out="mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_grades_go_into_no_folder_with_files_of_others(grade, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "grades.csv").write_text("mine")
    with refused(f"OUT: {folder} contains files that no grading wrote (grades.csv)"):
        grade({"ann": ANSWERS}, out="mine")
    assert contents(folder) == {"grades.csv": b"mine"}
