"""A class of mixed submissions gets what is known, however often its grader or workers are killed.

`make test FULL=1` grades 30; THOUSAND=1000 does the thousand, with twenty kills.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import psutil
import pytest
from classroom import (
    DATA,
    KEY,
    RIGHT,
    SMALL,
    WRONG,
    contents,
    edition,
    entries,
    results,
    small,
)
from distributed import Client
from helpers import ROOT, bare_environment, start_tool

from coursework.grade.store import LOCK, points_by_tests

COUNT = int(os.environ.get("THOUSAND", "30"))
KILLS = 20 if COUNT >= 1000 else 3
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sandbox")]
HOSTILE = [source for _, source in entries(DATA / "answers.txt")]
# What a file holds, and a word of the reason that it gets.
BROKEN = {
    "": "empty",
    '{"cells": [{"cell_type": "code", "sour': "not a notebook",
    '{"nbformat": 3, "worksheets": []}': "formats from 4.0 to 4.5",
    '{"nbformat": 4, "cells": []}': "no exercise",
    json.dumps(edition(RIGHT, small(group="f" * 12))): "another class",
}


@dataclass
class HandIn:
    """What a student hands in, and what is known about its result."""

    student: str
    text: str
    points: dict[int, int] = field(default_factory=dict)  # by exercise
    reason: str = ""  # a word of it, if it is refused


def crowd():
    """Yield a class of any size, the same for every worker of the tests."""
    rng = random.Random(1)
    for place in range(COUNT):
        student = f"student-{place:04}"
        kind = rng.random()
        if kind < 0.06:
            text, reason = rng.choice(list(BROKEN.items()))
            yield HandIn(student, text, reason=reason)
            continue

        answers, points = mixed_answers(rng)
        if kind < 0.2:
            question = rng.choice(SMALL.exercises)
            answer = rng.choice(HOSTILE)
            answers[question.number] = answer.replace("NAME", question.answer_name)
            points[question.number] = 0
        yield HandIn(student, json.dumps(edition(answers)), points)


def mixed_answers(rng):
    """Return answers, right and wrong, and the points of each exercise."""
    answers = {}
    points = {}
    for number in RIGHT:
        kind = rng.choice(["right", "right", "wrong", "blank"])
        points[number] = 0
        if kind == "right":
            answers[number] = f"{RIGHT[number]}  # {rng.random()}"
            points[number] = 3
        elif kind == "wrong":
            answers[number] = f"{WRONG[number]}  # {rng.random()}"
    return answers, points


TWO_WORKERS = {"WORKERS": "2"}


def start(folder, out, engine=TWO_WORKERS):
    """Start `make grade` in a process group of its own."""
    variables = {
        "SUBMISSIONS": str(folder / "submissions"),
        "MASTERS": str(DATA / "class"),
        "CLASS": KEY,
        "OUT": str(out),
    }
    return start_tool(
        ROOT,
        "grade",
        variables=variables | engine,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def written(out):
    """Return every file that a grading wrote, byte for byte."""
    return {path: data for path, data in contents(out).items() if path != LOCK}


def results_in(out):
    """Return how many submissions have a result."""
    return len(list((out / "results").glob("*.json")))


@pytest.fixture(scope="module")
def graded(once):
    """The folder of the class, and the files of an undisturbed run: made once for all tests."""

    def make(folder):
        (folder / "submissions").mkdir(parents=True)
        for hand_in in crowd():
            path = folder / "submissions" / f"{hand_in.student}.ipynb"
            path.write_text(hand_in.text, encoding="utf-8")
        assert start(folder, folder / "plain").wait() == 0

    folder = once("crowd", make)
    return folder, written(folder / "plain")


def is_as_known(grade, hand_in):
    if points_by_tests(grade) != hand_in.points:
        return False
    return hand_in.reason in (grade.reason or "")


def test_every_submission_gets_what_is_known(graded):
    folder, files = graded
    pages = [path for path in files if path.startswith("feedback/")]
    assert len(pages) == COUNT

    grades = results(folder / "plain")
    assert grades.keys() == {hand_in.student for hand_in in crowd()}
    wrong = []
    for hand_in in crowd():
        grade = grades[hand_in.student]
        if not is_as_known(grade, hand_in):
            wrong.append((hand_in, grade))
    assert wrong == []


def end_grading(process, kill_signal):
    """Send a signal to a grading and its workers, and wait until none of them is left."""
    workers = []
    if process.poll() is None:
        workers = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, kill_signal)
    code = process.wait(60)
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    return code


def test_interrupted_or_killed_it_ends_with_the_same_bytes(graded):
    folder, files = graded
    out = folder / "killed"
    rng = random.Random(20)
    # So that kills fall on the whole of the run.
    share = max(1, COUNT // (KILLS + 2))
    counts = []
    for number in range(KILLS):
        process = start(folder, out)
        until = results_in(out) + rng.randrange(share // 2, 3 * share // 2 + 1)
        while results_in(out) < until and process.poll() is None:
            time.sleep(0.02)
        # At any point of what is under way.
        time.sleep(rng.uniform(0, 0.5))

        is_interrupt = number == 0
        code = end_grading(process, signal.SIGINT if is_interrupt else signal.SIGKILL)

        assert code != 0 or results_in(out) == COUNT
        if is_interrupt:
            # Ctrl-C leaves nothing half written.
            assert not list(out.rglob("*.part"))
        counts.append(results_in(out))

    # It went on, and lost nothing.
    assert counts[0] < counts[-1]
    assert counts == sorted(counts)
    assert start(folder, out).wait() == 0
    assert written(out) == files


# A scheduler and workers that know nothing of this checkout.
CLUSTER = [sys.executable, str(ROOT / "course" / "dask" / "local.py"), "2"]


@pytest.fixture
def cluster(tmp_path):
    """The address of a Dask cluster of two workers."""
    with subprocess.Popen(
        CLUSTER,
        cwd=tmp_path,
        env=bare_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stdout.readline()
        yield line.split("DASK=")[1].split()[0]
        process.terminate()


def test_dask_workers_that_are_killed_are_survived(graded, cluster):
    folder, files = graded
    out = folder / "dask"
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        knows_tools = client.run(lambda: "tools" in sys.modules)
        assert not any(knows_tools.values())
        process = start(folder, out, {"DASK": cluster})
        for share in (0.2, 0.6):
            while results_in(out) < share * COUNT and process.poll() is None:
                time.sleep(0.05)
            assert process.poll() is None, "it had ended before a worker was killed"
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        assert process.wait() == 0
        paths = client.run(lambda: sys.modules["tools"].__file__)
    assert written(out) == files
    # The workers ran the code that was sent to them.
    for path in paths.values():
        assert "/grading-" in path
