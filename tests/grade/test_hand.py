"""Points that people give while grading runs, in their own spreadsheet, and several of them."""

import csv
import io
import json
import sys
from dataclasses import replace
from datetime import datetime

import pytest
from classroom import HERE, SMALL, contents, edition, small, table, totals
from helpers import refused

from coursework.exercises.tasks import LateRule
from coursework.grade import report
from coursework.grade.by_hand import AGAIN, BY_HAND
from tools.errors import BookError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {"ann": HERE, "bob": HERE, "cy": {}}


@pytest.fixture
def out(grade, tmp_path):
    grade(CLASS)
    return tmp_path / "out"


def typed(out, changes, layout=",", encoding="utf-8", head="", name=BY_HAND):
    """Write points and notes by student, as a spreadsheet does, into the table or a copy of it."""
    rows = table(out, BY_HAND)
    for row in rows:
        points, note = changes.get(row["student"], (row["points"], row["note"]))
        row |= {"points": points, "note": note}
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], delimiter=layout)
    writer.writeheader()
    writer.writerows(rows)
    (out / name).write_bytes((head + text.getvalue()).encode(encoding))


def by_hand(out):
    return {row["student"]: (row["points"], row["note"]) for row in table(out, BY_HAND)}


def while_grading(grade, monkeypatch, save):
    """Let a person save the table once while the submissions are asked."""
    plain = grade.engine

    def engine(tasks):
        save()
        yield from plain(tasks)

    monkeypatch.setattr(grade, "engine", engine)


# --- saved while grading runs


def test_what_is_typed_while_grading_runs_counts(grade, out, monkeypatch, capsys):
    typed(out, {"ann": ("2", "")})
    with monkeypatch.context() as patch:
        while_grading(grade, patch, lambda: typed(out, {"bob": ("1", "fine")}))
        grade({"cy": HERE})
    assert totals(out) == {"ann": "11", "bob": "10", "cy": "9"}
    assert by_hand(out)["bob"] == ("1", "fine")
    # As bob was not asked again.
    assert "what you typed stays" not in capsys.readouterr().out


def without(out, student):
    """Take the row of a student out of the table."""
    lines = (out / BY_HAND).read_text(encoding="utf-8").splitlines(keepends=True)
    left = [line for line in lines if not line.startswith(student)]
    assert len(left) == len(lines) - 1
    (out / BY_HAND).write_text("".join(left), encoding="utf-8")


def test_a_row_that_is_lost_while_grading_runs_comes_back(grade, out, monkeypatch):
    typed(out, {"ann": ("2", "")})
    while_grading(grade, monkeypatch, lambda: without(out, "ann"))
    grade({"ann": HERE | {3: f"{HERE[3]}\n# new"}})
    assert by_hand(out)["ann"] == ("2", AGAIN)


def test_what_is_saved_in_the_moment_of_writing_counts(grade, out, monkeypatch):
    make_forms = report.by_hand_forms
    is_saved = False

    def slow_forms(*arguments):
        nonlocal is_saved
        forms = make_forms(*arguments)
        if not is_saved:
            typed(out, {"bob": ("1", "fine")})
            is_saved = True
        return forms

    monkeypatch.setattr(report, "by_hand_forms", slow_forms)
    grade(CLASS)
    assert by_hand(out)["bob"] == ("1", "fine")
    assert totals(out)["bob"] == "10"


def test_a_row_that_the_person_and_the_run_change_keeps_both(
    grade, out, monkeypatch, capsys
):
    typed(out, {"ann": ("2", "")})
    grade(CLASS)
    before = (out / BY_HAND).read_bytes()

    def save():
        assert by_hand(out)["ann"] == ("2", AGAIN)
        (out / BY_HAND).write_bytes(before)  # opened before grading began
        typed(out, {"ann": ("1", "so-so"), "bob": ("0", "")})

    while_grading(grade, monkeypatch, save)
    anew = HERE | {3: f"{HERE[3]}\n# new"}
    grade({"ann": anew, "bob": anew})
    assert by_hand(out)["ann"] == ("1", f"so-so; {AGAIN}")
    assert by_hand(out)["bob"] == ("0", AGAIN)  # typed for what was handed in before
    told = [line for line in capsys.readouterr().out.splitlines() if AGAIN in line]
    for student, line in zip(("ann", "bob"), told, strict=True):
        assert f"{student}, small exercise 3" in line and "what you typed stays" in line


def test_a_table_that_cannot_be_merged_is_kept_and_named(
    grade, out, monkeypatch, capsys
):
    typed(out, {"ann": ("2", "")})
    faulty = {"ann": ("1", ""), "bob": ("many", "")}
    while_grading(grade, monkeypatch, lambda: typed(out, faulty))
    grade({"cy": HERE})
    assert totals(out)["ann"] == "11"
    [line] = [line for line in capsys.readouterr().out.splitlines() if "many" in line]
    assert "row 3 gives bob 'many' points" in line
    [kept] = [name for name, data in contents(out).items() if b"many" in data]
    assert kept.startswith("earlier/by-hand.") and kept in line


# --- as spreadsheets save it

NOTE = "schön \u2013 ja"
FORMS = [  # separator, encoding, what stands above, how points are typed, what grades.csv says
    (";", "cp1252", "", "1,5", "10,5"),
    (";", "utf-8-sig", "sep=;\r\n", "1,5", "10,5"),
    (";", "utf-8", "", "1.5", "10.5"),
    ("\t", "utf-16", "", "1,5", "10,5"),
    ("\t", "utf-8", "", "1.5", "10.5"),
    (",", "utf-8", "sep=,\n", "1,5", "10.5"),
]


@pytest.mark.parametrize(("separator", "encoding", "head", "points", "total"), FORMS)
def test_a_table_is_read_as_spreadsheets_save_it_and_keeps_its_separator(
    separator, encoding, head, points, total, grade, out
):
    typed(out, {"ann": (points, NOTE)}, separator, encoding, head)
    grade({"ann": HERE})

    def first_row(name):
        text = (out / name).read_bytes().decode("utf-8-sig")
        return next(csv.DictReader(io.StringIO(text), delimiter=separator))

    for _ in range(2):  # the second time it is our own
        assert first_row(BY_HAND)["points"] == points
        assert first_row(BY_HAND)["note"] == NOTE
        assert first_row("grades.csv")["total"] == total
        page = (out / "by-hand.html").read_text(encoding="utf-8")
        assert f'"separator": {json.dumps(separator)}' in page
        grade({"ann": HERE})


def test_a_table_whose_encoding_is_in_doubt_is_not_read(grade, out):
    before = contents(out)
    for encoding, note in [
        ("cp1251", "очень хорошо"),
        ("cp1250", "całkiem dobrze"),
        ("gbk", "很好"),
        ("utf-16-le", "without its mark"),
        ("utf-16", "cut short"),
    ]:
        typed(out, {"ann": ("1", note)}, ";", encoding)
        saved = (out / BY_HAND).read_bytes()
        if note == "cut short":
            saved = saved[:-1]
            (out / BY_HAND).write_bytes(saved)
        with refused(BY_HAND, "is not clear; save it as CSV UTF-8"):
            grade(CLASS)
        assert contents(out) == before | {BY_HAND: saved}
        (out / BY_HAND).write_bytes(before[BY_HAND])
    grade({"Dvořák": HERE})
    typed(out, {}, ";", "cp1250")  # in which they are other letters than in cp1252
    with refused("another name than 'Dvořák', so its encoding is not clear"):
        grade(CLASS)


def test_a_table_needs_no_column_for_notes_and_a_space_is_no_points(grade, out):
    rows = [
        row | {"points": "2"} for row in table(out, BY_HAND) if row["student"] != "cy"
    ]
    rows[1]["points"] = " "
    text = io.StringIO()
    names = ("submission", "assignment", "exercise", "of", "points")
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    (out / BY_HAND).write_text(text.getvalue())
    anew = HERE | {3: f"{HERE[3]}\n# new"}
    grade({"ann": anew, "bob": anew})
    assert by_hand(out)["ann"] == ("2", AGAIN)
    assert by_hand(out)["bob"][1] == ""
    assert totals(out)["bob"] == "9"


def test_two_rows_for_one_student_are_named_with_their_numbers(grade, out):
    with (out / BY_HAND).open(encoding="utf-8", newline="") as file:
        lines = list(file)
    for second in (lines[1], lines[1].replace(",2,,", ",2,1,")):
        (out / BY_HAND).write_text(
            "".join([*lines, "\r\n", second]), encoding="utf-8", newline=""
        )
        before = contents(out)
        with refused(
            f"{BY_HAND}: rows 2 and 6 are both for ann, small exercise 3; keep one"
        ):
            grade(CLASS | {"cy": HERE})
        assert contents(out) == before


@pytest.mark.usefixtures("out")
def test_a_spreadsheet_in_the_place_of_the_table_is_named_as_not_read(
    grade, tmp_path, capsys
):
    (tmp_path / "out" / "by-hand.xlsx").write_bytes(b"PK")
    grade(CLASS)
    line = "by-hand.xlsx: is not read; save it as CSV in the same folder"
    assert line in capsys.readouterr().out.splitlines()


# --- several graders


def test_copies_of_several_graders_are_merged_and_set_aside(grade, out, capsys):
    typed(
        out,
        {"ann": ("2", ""), "bob": ("", "on paper")},
        ";",
        "cp1252",
        name="by-hand-ada.csv",
    )
    typed(out, {"ann": ("2,0", "well said"), "cy": ("0", "")}, name="by-hand (1).csv")
    typed(out, {"bob": ("1", "")})
    capsys.readouterr()
    grade(CLASS)
    assert by_hand(out) == {
        "ann": ("2,0", "well said"),
        "bob": ("1", "on paper"),
        "cy": ("0", ""),
    }
    assert totals(out) == {"ann": "11", "bob": "10", "cy": "0"}
    said = capsys.readouterr().out
    for rows, name in (("2 rows", "by-hand (1)"), ("1 row", "by-hand-ada")):
        assert f"{rows} taken from {name}.csv, which is now earlier/{name}." in said
        assert not (out / f"{name}.csv").exists()
    before = contents(out)
    grade(CLASS)
    assert contents(out) == before


def test_graders_who_differ_are_named_and_nothing_is_written(grade, out):
    typed(out, {"ann": ("2", "good"), "bob": ("1", "")}, name="by-hand-ada.csv")
    typed(out, {"ann": ("1", "weak"), "bob": ("1", "")}, name="by-hand-ben.csv")
    before = contents(out)
    with pytest.raises(
        BookError, match="graders differ in 2 places, so nothing was"
    ) as error:
        grade(CLASS | {"cy": HERE})
    assert str(error.value).splitlines()[1:] == [
        "  ann, small exercise 3: points '2' in by-hand-ada.csv, '1' in by-hand-ben.csv",
        "  ann, small exercise 3: note 'good' in by-hand-ada.csv, 'weak' in by-hand-ben.csv",
    ]
    assert contents(out) == before
    typed(out, {"ann": ("", ""), "bob": ("1", "")}, name="by-hand-ben.csv")
    grade(CLASS)
    assert by_hand(out)["ann"] == ("2", "good")


def test_a_copy_is_merged_beside_the_note_of_a_new_hand_in(grade, out, monkeypatch):
    typed(out, {"ann": ("2", "good")}, name="by-hand-ada.csv")
    while_grading(grade, monkeypatch, lambda: typed(out, {"bob": ("1", "")}))
    grade({"ann": HERE | {3: f"{HERE[3]}\n# new"}})
    assert by_hand(out)["ann"] == ("2", f"good; {AGAIN}")
    assert by_hand(out)["bob"][0] == "1"
    assert not (out / "by-hand-ada.csv").exists()


def test_a_copy_that_differs_from_what_is_typed_meanwhile_stays(
    grade, out, monkeypatch, capsys
):
    typed(out, {"ann": ("2", "")}, name="by-hand-ada.csv")
    while_grading(grade, monkeypatch, lambda: typed(out, {"ann": ("1", "")}))
    grade(CLASS | {"cy": HERE})
    said = capsys.readouterr().out
    assert f"points '1' in {BY_HAND}, '2' in by-hand-ada.csv" in said
    assert by_hand(out)["ann"] == ("1", "")
    assert (out / "by-hand-ada.csv").exists()


# --- late work

DUE = datetime.fromisoformat("2026-02-02T12:00:00+01:00")
RULE = LateRule(percent=20, grace=3600, most=50)
TIMES = {  # of UTC, and what is left of 9 points
    "ada": ("2026-02-02 10:59:59", "9"),  # in time
    "bob": ("2026-02-02 11:59:59", "9"),  # within the hour of grace
    "cy": ("2026-02-02 12:00:01", "7.2"),  # a day has begun
    "dee": ("2026-02-03 12:00:01", "5.4"),
    "eve": ("2026-03-03 12:00:01", "4.5"),  # half of them at most
}
HANDED_IN = {
    f"{name}+small+{time}.0 UTC/small": HERE for name, (time, _) in TIMES.items()
}


def pages(out):
    """Return the pages of feedback by student."""
    by_student = {}
    for name, page in contents(out / "feedback").items():
        by_student[name.split("-")[0]] = page.decode()
    return by_student


def test_late_work_costs_what_the_rule_says_and_nothing_is_run_again(
    grade, tmp_path, capsys
):
    late = small(due=DUE, late=RULE)
    grade.assignments = [late]
    grade(HANDED_IN)
    out = tmp_path / "out"
    assert "handed in late, and graded with the penalty: 3" in capsys.readouterr().out
    rows = {row["student"]: row for row in table(out)}
    assert rows.keys() == TIMES.keys()
    for name, (_, left) in TIMES.items():
        assert rows[name]["total"] == "9"
        assert rows[name]["total after penalty"] == left
    columns = ("late", "days late", "penalty in %", "penalty in points")
    assert [rows["dee"][column] for column in columns] == ["late", "2", "40", "3.6"]
    assert [rows["ada"][column] for column in columns] == ["", "", "", ""]
    feedback = pages(out)
    assert "handed in 2 days late: 40 % less, 5.4 points" in feedback["dee"]
    assert "handed in 1 day late: 20 % less, 7.2 points" in feedback["cy"]
    assert "within the grace period" in feedback["bob"]
    assert " late" not in feedback["ada"]

    typed(out, {"cy": ("1,333", "")})  # points by hand count before the penalty
    grade.assignments = [small(due=DUE, late=replace(RULE, percent=10))]
    grade(HANDED_IN)
    assert not grade.asked
    cy = next(row for row in table(out) if row["student"] == "cy")
    assert (cy["total"], cy["total after penalty"]) == ("10.33", "9.3")

    grade.assignments = [SMALL]
    grade(HANDED_IN)
    assert not grade.asked
    assert "total after penalty" not in table(out)[0]


def test_no_binary_fraction_is_written(grade, tmp_path):
    grade.assignments = [small(due=DUE, late=RULE)]
    one = {"cy+small+2026-02-02 12:00:01.0 UTC/small": HERE | {1: "double = 1"}}
    grade(one)
    typed(tmp_path / "out", {"cy": ("1", "")})
    grade(one)  # 0.8 times 7 is 5.6000000000000005
    assert table(tmp_path / "out")[0]["total after penalty"] == "5.6"
    for data in contents(tmp_path / "out").values():
        assert b"5.600" not in data and b"1.39" not in data


def test_a_download_that_says_late_and_not_when_takes_nothing(grade, tmp_path, capsys):
    grade.assignments = [small(due=DUE, late=RULE)]
    grade({"roe_LATE_1_2_small": HERE, "doe_2_3_small": HERE})
    line = "handed in late, at an unknown time: 1; the download does not say when, so"
    assert line in capsys.readouterr().out
    [doe, roe] = table(tmp_path / "out")
    assert roe["late"] == "late"
    assert roe["days late"] == "not known"
    assert roe["total after penalty"] == "9"
    assert doe["late"] == ""
    assert doe["days late"] == ""
    assert "handed in late<" in pages(tmp_path / "out")["roe"]


# --- what students and graders read


def test_an_error_in_a_hidden_test_has_its_name(grade, tmp_path):
    names = iter(["IndexError", "an error of its own class", None])
    plain = grade.engine

    def engine(tasks):
        for task, outcome in plain(tasks):
            for question in outcome.results.values():
                for test in question.tests:
                    if "raised" in (test.reason or ""):
                        test.error = next(names)
            yield task, outcome

    grade.engine = engine
    raising = "def double(x):\n    raise IndexError"
    grade({"ann": HERE | {1: raising, 3: "def zeros(n):\n    raise ValueError"}})
    page = pages(tmp_path / "out")["ann"]
    assert "your code raised an IndexError<" in page
    assert "your code raised an error of its own class<" in page
    assert "your code raised an error<" in page


def test_comments_and_cells_of_text_reach_the_reader(grade, tmp_path):
    own_comment = "# A <b>launch</b> takes as long"
    answer = f"# your function\n{HERE[3]}  {own_comment}\ny = '# no'\n# so"
    notebook = edition(HERE | {3: answer})
    ids = [cell["id"] for cell in notebook["cells"]]
    own = {"cell_type": "markdown", "id": "mine", "metadata": {}}
    own["source"] = "Because it waits."
    notebook["cells"].insert(ids.index("answer-3") + 1, own)
    grade({"ann": notebook})
    page = (tmp_path / "out" / "by-hand.html").read_text(encoding="utf-8")
    read, code = page.split("Code of the answer")
    assert "Because it waits." in read
    assert "  3  zeros = " in read
    assert "&lt;b&gt;launch&lt;/b&gt; takes as long" in read
    assert "5  # so" in read
    assert "# your function" in code
    assert "# so" in code
    assert "  1  # your function" not in read and "# no" not in read
