"""A small class from its notebooks to its grades, stopped, resumed and graded again."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from classroom import (
    HERE,
    LOST,
    RIGHT,
    SMALL,
    WRONG,
    contents,
    edition,
    small,
    table,
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
CLASS = {"ann": HERE, "bob": HERE | ENDS, "cy": WRONG, "dee": {}, "=cmd()": HERE}
IN_SANDBOX = {
    "ann": RIGHT,
    "bob": RIGHT | {1: "while True:\n    pass"},
    "cy": WRONG,
    "dee": RIGHT | {2: "import os\nos._exit(0)"},
    "=cmd()": RIGHT | {3: "def zeros(n):\n    print('SECRET', n)\n    return n"},
}
FEWER = edition(RIGHT)
FEWER["metadata"]["assignment"]["exercises"] = [1]
REFUSED = {  # and a word of the reason
    "other": (edition(RIGHT, small(group="f" * 12)), "another class"),
    "unknown": (edition(RIGHT, small(name="another")), "'another' is not among"),
    "fewer": (FEWER, "ASSIGNMENT="),
    "none": (edition(RIGHT) | {"cells": []}, "no exercise"),
    "bad": ("{", "not a notebook"),
}
TRYING = {  # code that is dear to read, or not to be read at all
    "deep": "if 0: torch" + ".a" * 900,
    "deeper": "x = " + "(" * 180 + ")" * 180 + "\n" + "-" * 50_000 + "1",
    "branches": "if 0: pass\n" + "elif 0: pass\n" * 1500,
    "dear": "f'" + "{1}" * 100_000 + "'",
    "magics": "%time 1\n" * 40_000,
    "long": "x = 1\n" * 1_000_000,
}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def rows(out):
    return {row["student"]: row for row in table(out)}


def test_a_class_has_a_row_a_student_with_points_or_a_reason(grade, out, capsys):
    unlike = replace(SMALL.exercises[0], checks=["1 + 1"])
    grade.assignments = [small(name="other", exercises=[unlike]), SMALL]
    students = CLASS | {"lost": LOST}
    for name, (notebook, _) in REFUSED.items():
        students[name] = notebook
    grade(students)

    row_of = rows(out)
    assert totals(out) == {
        "=cmd[]": "9",
        "ann": "9",
        "bob": "6",
        "cy": "0",
        "dee": "0",
        "lost": "9",
        **dict.fromkeys(REFUSED, ""),
    }
    for name, (_, words) in REFUSED.items():
        assert words in row_of[name]["not graded because"]
    assert row_of["ann"]["small 1 (of 3)"] == "3"
    assert row_of["ann"]["small 3 by hand (of 2)"] == ""
    assert row_of["ann"]["of"] == "11"
    assert "'=cmd" in (out / "grades.csv").read_text(encoding="utf-8")
    assert "graded: 6 of 11 submissions, 0 with full points" in capsys.readouterr().out
    for name in ("by-hand.csv", "by-hand.html", "review.html"):
        assert (out / name).is_file()
    assert len(contents(out / "feedback")) == 11


def released_from(masters):
    notebook = edition(HERE, small(masters=masters))
    if masters is None:
        del notebook["metadata"]["assignment"]["masters"]
    return notebook


def test_notebooks_of_other_masters_are_refused_and_both_sets_are_named(grade, out):
    own = SMALL.masters
    other = "0123456789ab"
    of_others = released_from(other)
    unknown = released_from(None)
    with refused("MASTERS: ", other, own, "MASTERS=..."):
        grade({"ann": of_others, "bob": of_others, "cy": HERE})
    assert not out.exists()

    grade({"ann": of_others, "bob": HERE, "cy": HERE, "dee": unknown})
    assert len(rows(out)) == 4

    grade({"ann": of_others, "dee": unknown})
    assert totals(out) == {"ann": "", "bob": "9", "cy": "9", "dee": "9"}
    reason = rows(out)["ann"]["not graded because"]
    for words in (other, own, "hand in the notebook that this class got"):
        assert words in reason


EVIL = "<img src=x onerror=f>"  # a name, and code
ALIKE = HERE[3] + "".join(f"\nx{n} = '{EVIL}', {n}" for n in range(9))
WATCHED = {
    "Ann": HERE | {2: WRONG[2], 3: ALIKE},
    EVIL: HERE | {1: f"print('{EVIL}')", 2: f"raise ValueError('{EVIL}')", 3: ALIKE},
    "Bob": ENDS,
    f"Cy {EVIL}": "{",
}
TAGS = (
    "html head meta title style body h1 h2 p table tr td code pre ul li small strong "
    "details summary div span"
).split()


class Safe(HTMLParser):
    """Fails on what a page of ours never holds."""

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS, tag
        for name, _ in attributes:
            assert name not in ("href", "src")
            assert not name.startswith("on")


def test_pages_say_what_a_person_should_see_and_hold_nothing_of_a_student_but_text(
    grade, out
):
    changed = edition(HERE)
    changed["cells"][-2]["source"] = "# another check"
    grade(WATCHED | {"Dee": changed})
    pages = {}
    for path in out.rglob("*.html"):
        pages[path.name] = path.read_text(encoding="utf-8")
        assert EVIL not in pages[path.name]
    assert "&lt;img" in pages.pop("by-hand.html")
    for page in pages.values():
        Safe().feed(page)

    in_order = (
        "not a notebook",
        "Bob: small, exercise 1",
        "11 of 11 lines",
        "x8 = ",
        "check cell",
    )
    places = [pages["review.html"].index(words) for words in in_order]
    assert places == sorted(places)

    [feedback] = [page for page in pages.values() if ">Ann<" in page]
    assert "Doubles any number." in feedback
    assert "passed" in feedback
    assert "your code raised a ValueError" in feedback
    assert "xs = [" in feedback
    assert "randrange" not in feedback
    assert "student.ask" not in feedback


def test_only_what_changed_is_asked_again_and_the_bytes_are_those_of_a_fresh_run(
    grade, out
):
    grade(CLASS)
    before = contents(out)
    grade(CLASS)
    assert not grade.asked
    assert contents(out) == before

    changed = small()
    question = changed.exercises[2]
    grade.assignments = [changed]
    question.by_hand = ByHand(3, "x")
    changed.due = datetime(2026, 12, 1, 12, tzinfo=UTC)
    grade({"ann": HERE})
    assert not grade.asked

    tests = question.tests.replace("(2, 9)", "(2, 8)")
    changes = [  # one after the other, each beside those before
        (changed, "seed", "cpu"),
        (changed, "runner", "cpu"),
        (changed, "given", SMALL.given + "\n1"),
        (question, "seconds", 3),
        (question, "memory", 99),
        (question, "tests", tests),
    ]
    for owner, name, value in changes:
        setattr(owner, name, value)
        grade({"ann": HERE})
        assert grade.asked == ["ann"], name

    grade(CLASS)
    grade(CLASS, out="fresh")
    after = contents(out)
    written = {path for path in after if not path.startswith("earlier/")}
    assert written == before.keys()
    assert contents(out.parent / "fresh").items() <= after.items()

    grade(CLASS | {"dee": HERE})
    assert grade.asked == ["dee"]
    assert totals(out)["dee"] == "9"


def test_the_grader_its_pins_and_its_kernels_are_in_every_key(tmp_path):
    digests = {store.code_digest.__wrapped__("cpu", tmp_path)}
    for name in (
        "coursework/grade/judge.py",
        "requirements.txt",
        "kernels/k/kernel.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        digests.add(store.code_digest.__wrapped__("cpu", tmp_path))
    assert len(digests) == 4


def test_interrupted_and_resumed_it_ends_with_the_same_bytes(grade, out):
    grade(CLASS, out="plain")
    for grade.stop_after in (0, 3):
        with pytest.raises(KeyboardInterrupt):
            grade(CLASS)
    [half, *_] = out.glob("results/*.json")  # as a crash may leave it
    half.write_text(half.read_text()[:-9])
    half.with_suffix(".json.part").write_text("{")
    grade.stop_after = None
    grade(CLASS)
    assert len(grade.asked) == 3
    assert contents(out) == contents(out.parent / "plain")


def test_one_grading_at_a_time_and_what_failed_is_tried_again(grade, out):
    with (
        store.Store(out).one_at_a_time(),
        refused("out: another 'make grade' writes there"),
    ):
        grade(CLASS)
    grade.ill = {"ann"}
    grade(CLASS)
    assert rows(out)["ann"]["not graded because"] == "it is ill"
    grade.ill = ()
    grade(CLASS)
    assert grade.asked == ["ann"]
    assert totals(out)["ann"] == "9"


def test_no_submission_stops_a_class(grade, out, monkeypatch):
    monkeypatch.setattr("coursework.grade.reading.SECONDS", 3)
    ticks = edition(HERE)
    for text in ("`" * 80_000, "```\n" * 20_000, "x" * 2_000_000):
        ticks["cells"].append({"cell_type": "markdown", "metadata": {}, "source": text})
    students = {"ann": HERE, "ticks": ticks, "nested": "[" * 100_000}
    for name, source in TRYING.items():
        students[name] = HERE | {1: f"{source}\n{RIGHT[1]}"}
    grade(students)

    row_of = rows(out)
    for name in ("ann", "ticks", "branches"):
        assert row_of[name]["total"] == "9"
    assert "too long" in row_of["dear"]["not graded because"]
    for name in (*TRYING, "nested"):
        row = row_of[name]
        assert row["not graded because"] or int(row["total"]) >= 6, name


def test_a_fault_of_the_grader_is_not_said_to_be_the_students(
    grade, monkeypatch, capfd
):
    def fail(*_):
        raise KeyError("ours")

    monkeypatch.setattr("coursework.grade.reading.splice", fail)
    with pytest.raises(BookError, match="none of 5 submissions") as error:
        grade(CLASS)
    assert str(error.value).count("the grader failed on it (KeyError") == 5
    assert "KeyError: 'ours'" in capfd.readouterr().err


def test_if_all_are_refused_up_to_twenty_reasons_are_printed(grade, out):
    broken = {f"s{number:02}": "{" for number in range(23)}
    with pytest.raises(BookError) as error:
        grade(broken)
    head, *lines = str(error.value).splitlines()
    assert head == "none of 23 submissions can be graded, so nothing is written:"
    for number, line in enumerate(lines[:20]):
        assert line.startswith(f"  s{number:02}:")
    assert lines[20:] == ["  and 3 more"]
    assert not out.exists()


def test_no_sandbox_nothing_is_graded(grade, out, monkeypatch):
    monkeypatch.setattr(
        "coursework.grade.sandbox.try_out", lambda name: f"{name}: not here"
    )
    monkeypatch.delenv("GRADE_TIER", raising=False)
    strongest.cache_clear()
    grade.engine = engine_for(1, None)
    try:
        with refused("no sandbox on this machine, so nothing is graded"):
            grade(CLASS)
    finally:
        strongest.cache_clear()
    assert not (out / "results").exists()


@pytest.mark.usefixtures("sandbox")
def test_in_a_sandbox_by_two_workers(grade, out):
    grade.engine = engine_for(2, None)
    grade(IN_SANDBOX)
    assert totals(out) == {"=cmd[]": "6", "ann": "9", "bob": "6", "cy": "0", "dee": "6"}
    assert not any(b"SECRET" in page for page in contents(out / "feedback").values())
