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
    unlike = replace(SMALL.questions[0], checks=["1 + 1"])
    grade.assignments = [small(name="other", questions=[unlike]), SMALL]
    grade(CLASS | {name: made for name, (made, _) in REFUSED.items()} | {"lost": LOST})
    found = rows(out)
    points = {name: row["total"] for name, row in found.items() if name not in REFUSED}
    assert points == {
        "=cmd[]": "9",
        "ann": "9",
        "bob": "6",
        "cy": "0",
        "dee": "0",
        "lost": "9",
    }
    for name, (_, words) in REFUSED.items():
        assert words in found[name]["not graded because"] and found[name]["total"] == ""
    ann = found["ann"]
    assert (ann["small 1 (of 3)"], ann["small 3 by hand (of 2)"], ann["of"]) == (
        "3",
        "",
        "11",
    )
    assert "'=cmd" in (out / "grades.csv").read_text(encoding="utf-8")
    assert "graded: 6 of 11 submissions, 0 with full points" in capsys.readouterr().out
    assert {"by-hand.csv", "by-hand.html", "review.html", "grades.csv"} <= contents(
        out
    ).keys()
    assert len(contents(out / "feedback")) == 11


def released_from(masters, answers=HERE):
    made = edition(answers, small(masters=masters))
    if masters is None:
        del made["metadata"]["assignment"]["masters"]
    return made


def test_notebooks_of_other_masters_are_refused_and_both_sets_are_named(grade, out):
    own, other = SMALL.masters, "0123456789ab"
    with refused("MASTERS: ", other, own, "MASTERS=..."):
        grade({"ann": released_from(other), "bob": released_from(other), "cy": HERE})
    assert not out.exists()
    grade(
        {
            "ann": released_from(other),
            "bob": HERE,
            "cy": HERE,
            "dee": released_from(None),
        }
    )
    assert len(rows(out)) == 4
    grade({"ann": released_from(other), "dee": released_from(None)})
    found = rows(out)
    assert found["ann"]["total"] == ""
    for words in (other, own, "hand in the notebook that this class got"):
        assert words in found["ann"]["not graded because"]
    assert [found[name]["total"] for name in ("bob", "cy", "dee")] == ["9"] * 3


EVIL = "<img src=x onerror=f>"  # a name, and code
ALIKE = HERE[3] + "".join(f"\nx{n} = '{EVIL}', {n}" for n in range(9))
WATCHED = {
    "Ann": HERE | {2: WRONG[2], 3: ALIKE},
    EVIL: HERE | {1: f"print('{EVIL}')", 2: f"raise ValueError('{EVIL}')", 3: ALIKE},
    "Bob": ENDS,
    f"Cy {EVIL}": "{",
}
TAGS = "html head meta title style body h1 h2 p table tr td code pre ul li small strong details"


class Safe(HTMLParser):
    """Fails on what a page of ours never holds."""

    def handle_starttag(self, tag, attributes):
        assert tag in [*TAGS.split(), "summary", "div", "span"], tag
        assert not any(
            name.startswith("on") or name in ("href", "src") for name, _ in attributes
        )


def test_pages_say_what_a_person_should_see_and_hold_nothing_of_a_student_but_text(
    grade, out
):
    changed = edition(HERE)
    changed["cells"][-2]["source"] = "# another check"
    grade(WATCHED | {"Dee": changed})
    pages = {
        path.name: path.read_text(encoding="utf-8") for path in out.rglob("*.html")
    }
    assert EVIL not in "".join(pages.values()) and "&lt;img" in pages.pop(
        "by-hand.html"
    )
    for page in pages.values():
        Safe().feed(page)
    review, [ann] = (
        pages["review.html"],
        [page for page in pages.values() if ">Ann<" in page],
    )
    words = (
        "not a notebook",
        "Bob: small, exercise 1",
        "11 of 11 lines",
        "x8 = ",
        "check cell",
    )
    places = [review.index(part) for part in words]
    assert places == sorted(places)
    for words in (
        "Doubles any number.",
        "passed",
        "your code raised a ValueError",
        "xs = [",
    ):
        assert words in ann
    assert "randrange" not in ann and "student.ask" not in ann


def test_only_what_changed_is_asked_again_and_the_bytes_are_those_of_a_fresh_run(
    grade, out
):
    grade(CLASS)
    before = contents(out)
    grade(CLASS)
    assert not grade.asked and contents(out) == before
    grade.assignments = [changed := small()]
    tests = changed.questions[2].tests.replace("(2, 9)", "(2, 8)")
    for of_question, change, asked in [  # one after the other, each beside those before
        (
            {"by_hand": ByHand(3, "x")},
            {"due": datetime(2026, 12, 1, 12, tzinfo=UTC)},
            [],
        ),
        *(({}, {name: "cpu"}, ["ann"]) for name in ("seed", "runner")),
        ({}, {"given": SMALL.given + "\n1"}, ["ann"]),
        *(
            (words, {}, ["ann"])
            for words in ({"seconds": 3}, {"memory": 99}, {"tests": tests})
        ),
    ]:
        for name, value in change.items():
            setattr(changed, name, value)
        for name, value in of_question.items():
            setattr(changed.questions[2], name, value)
        grade({"ann": HERE})
        assert grade.asked == asked, (of_question, change)
    grade(CLASS)
    grade(CLASS, out="fresh")
    after = contents(out)
    assert {path for path in after if not path.startswith("earlier/")} == before.keys()
    assert contents(out.parent / "fresh").items() <= after.items()
    grade(CLASS | {"dee": HERE})
    assert grade.asked == ["dee"] and totals(out)["dee"] == "9"


def test_the_grader_its_pins_and_its_kernels_are_in_every_key(tmp_path):
    found = []
    for name in (
        "README.md",
        "coursework/grade/judge.py",
        "requirements.txt",
        "kernels/k/kernel.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        found.append(store.code_digest.__wrapped__("cpu", tmp_path))
    assert len(set(found)) == 4


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
    assert grade.asked == ["ann"] and totals(out)["ann"] == "9"


def test_no_submission_stops_a_class(grade, out, monkeypatch):
    monkeypatch.setattr("coursework.grade.reading.SECONDS", 3)
    ticks = edition(HERE)
    for text in ("`" * 80_000, "```\n" * 20_000, "x" * 2_000_000):
        ticks["cells"].append({"cell_type": "markdown", "metadata": {}, "source": text})
    trying = {
        name: HERE | {1: f"{source}\n{RIGHT[1]}"} for name, source in TRYING.items()
    }
    grade(trying | {"ann": HERE, "ticks": ticks, "nested": "[" * 100_000})
    found = rows(out)
    assert [found[name]["total"] for name in ("ann", "ticks", "branches")] == ["9"] * 3
    assert "too long" in found["dear"]["not graded because"]
    for name in (*TRYING, "nested"):
        assert found[name]["not graded because"] or int(found[name]["total"]) >= 6, name


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
    assert [line.split(":")[0] for line in lines[:20]] == [
        f"  s{n:02}" for n in range(20)
    ]
    assert lines[20:] == ["  and 3 more"] and not out.exists()


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
