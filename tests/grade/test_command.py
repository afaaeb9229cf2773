"""A small class from a folder of notebooks to its grades, stopped, resumed and graded again."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from classroom import RIGHT, SMALL, WRONG, StandIn, edition, question, small
from helpers import refused as is_refused
from helpers import wait_until
from test_judge import ON_CPU

from tools.errors import BookError
from tools.grade.command import engine_for, grade_all, read_all, summary
from tools.grade.grade import grade_one, strongest
from tools.grade.tables import read_table
from tools.root import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
CLASS = {
    "ann": RIGHT | ON_CPU,
    "bob": RIGHT | ON_CPU | {1: "def double(x):\n    return end('time')"},
    "cy": WRONG,
    "dee": {},
    "=cmd()": RIGHT | ON_CPU,
}
IN_SANDBOX = {
    "ann": RIGHT,
    "bob": RIGHT | {1: "while True:\n    pass"},
    "cy": WRONG,
    "dee": RIGHT | {2: "import os\nos._exit(0)"},
    "=cmd()": RIGHT | {3: "def zeros(n):\n    print('SECRET', n)\n    return n"},
}


class Engine:
    """Grades in this process, and notes what it was asked for; it may be interrupted."""

    def __init__(self, stop_after=None, ill=()):
        self.asked, self.stop_after, self.ill = [], stop_after, ill

    def __call__(self, tasks):
        for place, task in enumerate(tasks):
            if place == self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(task["student"])
            is_ill = task["student"] in self.ill
            yield task, BookError("it is ill") if is_ill else grade_one(task, StandIn())


def hand_in(folder, students):
    folder.mkdir(exist_ok=True)
    for student, answers in students.items():
        (folder / f"{student}.ipynb").write_text(json.dumps(edition(answers)))
    return folder


@pytest.fixture
def folder(tmp_path):
    return hand_in(tmp_path / "submissions", CLASS)


def graded(folder, engine=None, *assignments, out="out"):
    by_name = {made["name"]: made for made in assignments or [SMALL]}
    return grade_all(read_all(folder, by_name), by_name, folder.parent / out, engine or Engine())


def files(folder, out="out"):
    paths = (folder.parent / out).rglob("*")
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def points(results):
    return {result["student"]: result["points"] for result in results}


def test_small_class(folder):
    results = graded(folder)
    assert points(results) == {"=cmd[]": 9, "ann": 9, "bob": 6, "cy": 0, "dee": 0}
    made = files(folder)
    table = read_table(made["grades.csv"].decode())
    assert [row["total"] for row in table] == ["9", "9", "6", "0", "0"]
    assert {"review.html", "by-hand.csv", "by-hand.html"} <= made.keys()
    assert sum(name.endswith(".html") for name in made) == 7
    assert "graded: 5 of 5 submissions" in summary(results, folder)


def test_only_what_changed_is_asked_again_and_the_bytes_are_those_of_a_fresh_run(folder):
    graded(folder)
    before, again = files(folder), Engine()
    graded(folder, again)
    assert not again.asked and files(folder) == before
    changed = small()
    changed["questions"][1]["tests"] = changed["questions"][1]["tests"].replace("(99)", "(88)")
    graded(folder, again, changed)
    assert len(again.asked) == 5
    graded(folder, None, changed, out="fresh")
    assert files(folder) == files(folder, "fresh")
    hand_in(folder, {"dee": RIGHT | ON_CPU})
    again = Engine()
    assert points(graded(folder, again, changed))["dee"] == 9
    assert again.asked == ["dee"]


@pytest.mark.parametrize("stop_after", [0, 3])
def test_interrupted_and_resumed_it_ends_with_the_same_bytes(folder, stop_after):
    graded(folder, out="plain")
    with pytest.raises(KeyboardInterrupt):
        graded(folder, Engine(stop_after))
    again = Engine()
    graded(folder, again)
    assert len(again.asked) == 5 - stop_after and files(folder) == files(folder, "plain")


def test_what_cannot_be_graded_is_a_row_with_its_reason(folder):
    fewer = edition(RIGHT)
    fewer["metadata"]["assignment"]["exercises"] = [1]
    odd = {
        "other": (edition(RIGHT, small(**{"class": "f" * 12})), "another class"),
        "unknown": (edition(RIGHT, small(name="another")), "'another' is not among"),
        "fewer": (fewer, "ASSIGNMENT="),
        "none": (edition(RIGHT) | {"cells": []}, "no exercise"),
        "bad": ("{", "not a notebook"),
    }
    lost = edition(RIGHT | ON_CPU)  # known by its cells
    del lost["metadata"]["assignment"]
    for student, (notebook, _) in (odd | {"lost": (lost, "")}).items():
        (folder / f"{student}.ipynb").write_text(json.dumps(notebook))
    other = small(name="other", questions=[question(1, "halve", "Half", "")])
    results = {one["student"]: one for one in graded(folder, None, other, SMALL)}
    assert len(results) == 11 and results["lost"]["points"] == 9
    for student, (_, words) in odd.items():
        assert results[student]["status"] == "refused" and words in results[student]["reason"]


TRYING = {  # code that is dear to read, or not to be read at all
    "deep": "if 0: torch" + ".a" * 900,
    "deeper": "x = " + "(" * 180 + ")" * 180 + "\n" + "-" * 50_000 + "1",
    "branches": "if 0: pass\n" + "elif 0: pass\n" * 1500,
    "dear": "f'" + "{1}" * 100_000 + "'",
    "long": "x = 1\n" * 1_000_000,
}


def test_no_submission_stops_a_class(folder, monkeypatch):
    monkeypatch.setattr("tools.grade.bounded.SECONDS", 3)
    for name, source in TRYING.items():
        hand_in(folder, {name: RIGHT | ON_CPU | {1: f"{source}\n{RIGHT[1]}"}})
    notebook = edition(RIGHT | ON_CPU)
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "`" * 80_000})
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "```\n" * 20_000})
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": "x" * 2_000_000})
    (folder / "ticks.ipynb").write_text(json.dumps(notebook))
    (folder / "nested.ipynb").write_text("[" * 100_000)
    results = {one["student"]: one for one in graded(folder)}
    assert len(results) == 5 + len(TRYING) + 2
    whole = [results[name]["points"] for name in ("ann", "ticks", "branches")]
    assert whole == [9, 9, 9] and "too long" in results["dear"]["reason"]
    for name in (*TRYING, "nested"):
        assert results[name]["points"] >= 6 or results[name]["reason"], name


def test_a_fault_of_the_grader_is_not_said_to_be_the_students(folder, monkeypatch, capfd):
    def fail(*_):
        raise KeyError("ours")

    monkeypatch.setattr("tools.grade.command.splice", fail)
    with is_refused("none of 5 submissions", "the grader failed on it (KeyError"):
        graded(folder)
    assert "KeyError: 'ours'" in capfd.readouterr().err


def test_fault_of_a_worker_is_tried_again(folder):
    results = graded(folder, Engine(ill={"ann"}))
    assert {result["student"]: result["reason"] for result in results}["ann"] == "it is ill"
    again = Engine()
    assert points(graded(folder, again))["ann"] == 9 and again.asked == ["ann"]


def test_no_sandbox_nothing_is_graded(folder, monkeypatch):
    monkeypatch.setattr("tools.grade.grade.try_out", lambda name: f"{name}: not here")
    monkeypatch.delenv("GRADE_TIER", raising=False)
    strongest.cache_clear()
    try:
        with is_refused("no sandbox on this machine, so nothing is graded"):
            graded(folder, engine_for(1, None))
    finally:
        strongest.cache_clear()
    assert not (folder.parent / "out" / "results").exists()


@pytest.mark.usefixtures("sandbox")
def test_in_a_sandbox_by_two_workers(folder):
    hand_in(folder, IN_SANDBOX)
    results = graded(folder, engine_for(2, None))
    assert points(results) == {"=cmd[]": 6, "ann": 9, "bob": 6, "cy": 0, "dee": 6}
    assert all("seccomp" in result["sandbox"] for result in results)
    pages = [path.read_bytes() for path in (folder.parent / "out" / "feedback").iterdir()]
    assert len(pages) == 5 and not any(b"SECRET" in page for page in pages)


@pytest.mark.full
@pytest.mark.usefixtures("sandbox")
def test_ctrl_c_ends_all_and_leaves_nothing_half_written(folder):
    hand_in(folder, {f"more-{place}": RIGHT for place in range(30)})
    out = folder.parent / "out"
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("crowd.py")), folder, out, "2"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        # It heeds Ctrl-C also where these tests run in the background.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    wait_until(lambda: len(list(out.glob("results/*.json"))) > 2)
    started = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    assert not psutil.wait_procs(started, timeout=60)[1]
    assert not list(out.rglob("*.part")) and 2 < len(list(out.glob("results/*.json"))) < 35
    assert all(json.loads(path.read_text()) for path in out.glob("results/*.json"))
