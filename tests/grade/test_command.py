"""A small class from its notebooks to its grades, stopped, resumed and graded again."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from classroom import (
    ANSWERS,
    RIGHT,
    SMALL,
    UNNAMED,
    WRONG,
    contents,
    edition,
    rows_by_student,
    small,
    totals,
)
from helpers import refused

from coursework.exercises.tasks import ByHand
from coursework.grade import store
from coursework.grade.command import engine_for
from coursework.grade.sandbox import strongest
from tools.errors import BookError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
ENDS = {1: "def double(x):\n    return end('time')"}
CLASS = {
    "ann": ANSWERS,
    "bob": ANSWERS | ENDS,
    "cy": WRONG,
    "dee": {},
    "=cmd()": ANSWERS,
}


# --- a row for each student

ONE_EXERCISE = edition(RIGHT)
ONE_EXERCISE["metadata"]["assignment"]["exercises"] = [1]
NO_CELLS = edition(RIGHT)
NO_CELLS["cells"] = []
# What is handed in, and a word of the reason that it is refused with.
REFUSED = {
    "other": (edition(RIGHT, small(group="f" * 12)), "another class"),
    "unknown": (edition(RIGHT, small(name="another")), "'another' is not among"),
    "fewer": (ONE_EXERCISE, "ASSIGNMENT="),
    "none": (NO_CELLS, "no exercise"),
    "bad": ("{", "not a notebook"),
}


@pytest.fixture
def graded_with_faults(grade, out):
    """The folder of a class some of whose notebooks cannot be graded."""
    another = replace(SMALL.exercises[0], checks=["1 + 1"])
    grade.assignments = [small(name="other", exercises=[another]), SMALL]
    faulty = {student: hand_in for student, (hand_in, _) in REFUSED.items()}
    grade(CLASS | {"lost": UNNAMED} | faulty)
    return out


def test_each_student_has_points_or_a_reason(graded_with_faults):
    assert totals(graded_with_faults) == {
        "=cmd[]": "9",
        "ann": "9",
        "bob": "6",
        "cy": "0",
        "dee": "0",
        "lost": "9",
        "other": "",
        "unknown": "",
        "fewer": "",
        "none": "",
        "bad": "",
    }
    row_of = rows_by_student(graded_with_faults)
    for student, (_, words) in REFUSED.items():
        assert words in row_of[student]["not graded because"]
    assert row_of["ann"]["small 1 (of 3)"] == "3"
    assert row_of["ann"]["small 3 by hand (of 2)"] == ""
    assert row_of["ann"]["of"] == "11"
    text = (graded_with_faults / "grades.csv").read_text(encoding="utf-8")
    assert "'=cmd" in text


def test_all_that_a_person_reads_is_written(capsys, graded_with_faults):
    for name in ("by-hand.csv", "by-hand.html", "review.html"):
        assert (graded_with_faults / name).is_file()
    assert len(contents(graded_with_faults / "feedback")) == 11
    line = "graded: 6 of 11 submissions, 0 with full points"
    assert line in capsys.readouterr().out


def released_from(masters):
    """Return right answers in an edition of these masters, or one that names none."""
    notebook = edition(ANSWERS, small(masters=masters))
    if masters is None:
        del notebook["metadata"]["assignment"]["masters"]
    return notebook


OWN_MASTERS = SMALL.masters
OTHER_MASTERS = "0123456789ab"


def test_a_class_of_other_masters_is_refused(grade, out):
    others = released_from(OTHER_MASTERS)
    with refused("MASTERS: ", OTHER_MASTERS, OWN_MASTERS, "MASTERS=..."):
        grade({"ann": others, "bob": others, "cy": ANSWERS})
    assert not out.exists()


def test_a_notebook_of_other_masters_is_refused(grade, out):
    others = released_from(OTHER_MASTERS)
    unknown = released_from(None)
    grade({"ann": others, "bob": ANSWERS, "cy": ANSWERS, "dee": unknown})
    assert len(rows_by_student(out)) == 4

    grade({"ann": others, "dee": unknown})

    assert totals(out) == {"ann": "", "bob": "9", "cy": "9", "dee": "9"}
    reason = rows_by_student(out)["ann"]["not graded because"]
    assert OTHER_MASTERS in reason
    assert OWN_MASTERS in reason
    assert "hand in the notebook that this class got" in reason


# --- pages

# A student's name, and code.
EVIL = "<img src=x onerror=f>"
LONG_ANSWER = ANSWERS[3] + "".join(f"\nx{n} = '{EVIL}', {n}" for n in range(9))
EVIL_ANSWERS = {
    1: f"print('{EVIL}')",
    2: f"raise ValueError('{EVIL}')",
    3: LONG_ANSWER,
}
WATCHED = {
    "Ann": ANSWERS | {2: WRONG[2], 3: LONG_ANSWER},
    EVIL: EVIL_ANSWERS,
    "Bob": ENDS,
    f"Cy {EVIL}": "{",
}
TAGS = (
    "html head meta title style body h1 h2 p table tr td code pre ul li small strong "
    "details summary div span"
).split()


class SafeReader(HTMLParser):
    """Fails on what a page of ours never holds."""

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS
        for name, _ in attributes:
            assert name not in ("href", "src")
            assert not name.startswith("on")


@pytest.fixture
def pages(grade, out):
    """The pages of a class with a hostile student, by name."""
    notebook = edition(ANSWERS)
    notebook["cells"][-2]["source"] = "# another check"
    grade(WATCHED | {"Dee": notebook})
    paths = out.rglob("*.html")
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_pages_hold_nothing_of_a_student_but_text(pages):
    for page in pages.values():
        assert EVIL not in page
    assert "&lt;img" in pages["by-hand.html"]
    for name, page in pages.items():
        # It has a script of ours.
        if name != "by-hand.html":
            SafeReader().feed(page)


def test_the_review_lists_what_a_person_should_see_in_order(pages):
    in_order = (
        "not a notebook",
        "Bob: small, exercise 1",
        "11 of 11 lines",
        "x8 = ",
        "check cell",
    )
    places = [pages["review.html"].index(words) for words in in_order]
    assert places == sorted(places)


BROKEN_TEST = """
def test_form(student, rng):
    'Doubles.'
    assert student.ask('double(1)')['a'] == 2
"""


def test_the_review_shows_a_broken_test_with_its_line(grade, out):
    assignment = small()
    assignment.exercises[0].tests = BROKEN_TEST
    grade.assignments = [assignment]
    grade({"ann": ANSWERS, "bob": ANSWERS})

    review = (out / "review.html").read_text(encoding="utf-8")
    _, heading, rest = review.partition("Hidden tests that raised an error: 1")
    assert heading
    text = "ann, bob: small, exercise 1: test_form broke off with a TypeError in line"
    assert text in rest

    for page in contents(out / "feedback").values():
        assert b"the result does not have the form that the task asks for" in page
        assert b"TypeError" not in page
        assert b"student.ask" not in page


def test_feedback_says_what_was_tested_and_not_how(pages):
    [feedback] = [page for name, page in pages.items() if name.startswith("ann-")]
    assert ">Ann<" in feedback
    assert "Doubles any number." in feedback
    assert "passed" in feedback
    assert "your code raised a ValueError" in feedback
    assert "xs = [" in feedback
    assert "randrange" not in feedback
    assert "student.ask" not in feedback


# --- graded again


def test_nothing_is_asked_again_if_nothing_changed(grade, out):
    grade(CLASS)
    before = contents(out)
    grade(CLASS)
    assert grade.asked == []
    assert contents(out) == before


def test_points_by_hand_and_a_due_date_ask_nothing_again(grade):
    grade(CLASS)
    changed = small(due=datetime(2026, 12, 1, 12, tzinfo=UTC))
    changed.exercises[2].by_hand = ByHand(3, "x")
    grade.assignments = [changed]
    grade({"ann": ANSWERS})
    assert grade.asked == []


def test_each_change_of_an_assignment_asks_again(grade):
    grade(CLASS)
    assignment = small()
    question = assignment.exercises[2]
    grade.assignments = [assignment]
    changes = [
        (assignment, "seed", "cpu"),
        (assignment, "runner", "cpu"),
        (assignment, "given", SMALL.given + "\n1"),
        (question, "seconds", 3),
        (question, "memory", 99),
        (question, "tests", question.tests.replace("(2, 9)", "(2, 8)")),
    ]

    # Each change stays when the next one is made.
    for owner, attribute, value in changes:
        assert getattr(owner, attribute) != value
        setattr(owner, attribute, value)
        grade({"ann": ANSWERS})
        assert grade.asked == ["ann"], attribute


def test_graded_again_it_has_the_bytes_of_a_fresh_run(grade, out, tmp_path):
    grade(CLASS)
    before = contents(out)
    grade.assignments = [small(seed="another")]
    grade({"ann": ANSWERS})
    grade(CLASS)

    grade(CLASS, out="fresh")

    after = contents(out)
    written = {path for path in after if not path.startswith("earlier/")}
    assert written == before.keys()
    assert contents(tmp_path / "fresh").items() <= after.items()


def test_a_student_who_hands_in_again_is_asked_alone(grade, out):
    grade(CLASS)
    grade(CLASS | {"dee": ANSWERS})
    assert grade.asked == ["dee"]
    assert totals(out)["dee"] == "9"


@pytest.mark.parametrize(
    "name",
    ["coursework/grade/judge.py", "requirements.txt", "kernels/k/kernel.json"],
)
def test_grader_pins_and_kernels_are_in_every_key(name, tmp_path):
    code_digest = store.code_digest.__wrapped__
    before = code_digest("cpu", tmp_path)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert code_digest("cpu", tmp_path) != before


def test_interrupted_and_resumed_it_ends_with_the_same_bytes(grade, out, tmp_path):
    grade(CLASS, out="uninterrupted")
    for count in (0, 3):
        grade.stop_after = count
        with pytest.raises(KeyboardInterrupt):
            grade(CLASS)
    # A crash may leave a result half written.
    [result, *_] = out.glob("results/*.json")
    result.write_text(result.read_text()[:-9])
    result.with_suffix(".json.part").write_text("{")

    grade.stop_after = None
    grade(CLASS)

    assert len(grade.asked) == 3
    assert contents(out) == contents(tmp_path / "uninterrupted")


# --- what fails


def test_only_one_grading_writes_at_a_time(grade, out):
    with store.Store(out).one_at_a_time():
        with refused("out: another 'make grade' writes there"):
            grade(CLASS)


def test_a_submission_that_failed_is_tried_again(grade, out):
    grade.ill = {"ann"}
    grade(CLASS)
    assert rows_by_student(out)["ann"]["not graded because"] == "it is ill"

    grade.ill = ()
    grade(CLASS)
    assert grade.asked == ["ann"]
    assert totals(out)["ann"] == "9"


# Code that takes long to read, or that cannot be read at all.
HARD_TO_READ = {
    "deep": "if 0: torch" + ".a" * 900,
    "deeper": "x = " + "(" * 180 + ")" * 180 + "\n" + "-" * 50_000 + "1",
    "branches": "if 0: pass\n" + "elif 0: pass\n" * 1500,
    "slow": "f'" + "{1}" * 100_000 + "'",
    "magics": "%time 1\n" * 40_000,
    "long": "x = 1\n" * 1_000_000,
}
HARD_TEXTS = ("`" * 80_000, "```\n" * 20_000, "x" * 2_000_000)


def test_no_submission_stops_a_class(grade, out, monkeypatch):
    monkeypatch.setattr("coursework.grade.reading.SECONDS", 3)
    ticks = edition(ANSWERS)
    for text in HARD_TEXTS:
        ticks["cells"].append({"cell_type": "markdown", "metadata": {}, "source": text})
    students = {"ann": ANSWERS, "ticks": ticks, "nested": "[" * 100_000}
    for name, source in HARD_TO_READ.items():
        students[name] = ANSWERS | {1: f"{source}\n{RIGHT[1]}"}

    grade(students)

    row_of = rows_by_student(out)
    for name in ("ann", "ticks", "branches"):
        assert row_of[name]["total"] == "9"
    assert "too long" in row_of["slow"]["not graded because"]
    for name in (*HARD_TO_READ, "nested"):
        row = row_of[name]
        assert row["not graded because"] or int(row["total"]) >= 6, name


def test_a_fault_of_the_grader_is_not_the_students(grade, monkeypatch, capfd):
    def fail(*_):
        raise KeyError("ours")

    monkeypatch.setattr("coursework.grade.reading.splice", fail)
    with pytest.raises(BookError, match="none of 5 submissions") as error:
        grade(CLASS)
    assert str(error.value).count("the grader failed on it (KeyError") == 5
    assert "KeyError: 'ours'" in capfd.readouterr().err


def test_if_all_are_refused_twenty_reasons_are_printed(grade, out):
    with pytest.raises(BookError) as error:
        grade({f"s{number:02}": "{" for number in range(23)})

    head, *lines = str(error.value).splitlines()
    assert head == "none of 23 submissions can be graded, so nothing is written:"
    for number, line in enumerate(lines[:20]):
        assert line.startswith(f"  s{number:02}:")
    assert lines[20:] == ["  and 3 more"]
    assert not out.exists()


@pytest.mark.parametrize("workers", ["0", "two", "-1", "1.5"])
def test_a_bad_number_of_workers_is_refused(workers):
    with refused(f"WORKERS={workers}: name a number of processes, 1 or more"):
        engine_for(workers, None)


@pytest.fixture
def no_sandbox(monkeypatch):
    """A machine on which no sandbox works."""
    monkeypatch.setattr("coursework.grade.sandbox.try_out", lambda name: "not here")
    monkeypatch.delenv("GRADE_TIER", raising=False)
    strongest.cache_clear()
    yield
    strongest.cache_clear()


@pytest.mark.usefixtures("no_sandbox")
def test_without_a_sandbox_nothing_is_graded(grade, out):
    grade.engine = engine_for(1, None)
    with refused("no sandbox on this machine, so nothing is graded"):
        grade(CLASS)
    assert not (out / "results").exists()


IN_SANDBOX = {
    "ann": RIGHT,
    "bob": RIGHT | {1: "while True:\n    pass"},
    "cy": WRONG,
    "dee": RIGHT | {2: "import os\nos._exit(0)"},
    "=cmd()": RIGHT | {3: "def zeros(n):\n    print('SECRET', n)\n    return n"},
}


@pytest.mark.usefixtures("sandbox")
def test_in_a_sandbox_by_two_workers(grade, out):
    grade.engine = engine_for(2, None)
    grade(IN_SANDBOX)
    assert totals(out) == {"=cmd[]": "6", "ann": "9", "bob": "6", "cy": "0", "dee": "6"}
    for page in contents(out / "feedback").values():
        assert b"SECRET" not in page
