"""A class of mixed submissions gets what is known, however often its grader or workers are killed.

`make test FULL=1` grades 30; THOUSAND=1000 does the thousand, with twenty kills.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import psutil
import pytest
from classroom import DATA, KEY, RIGHT, SMALL, WRONG, contents, edition, small
from distributed import Client
from helpers import ROOT, bare_environment, start_tool

from coursework.grade.results import Grade
from coursework.grade.store import LOCK, points_by_tests

COUNT = int(os.environ.get("THOUSAND", "30"))
KILLS = 20 if COUNT >= 1000 else 3
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sandbox")]
_, *HOSTILE = re.split("^== .*\n", (DATA / "answers.txt").read_text(), flags=re.M)
BROKEN = {  # what a file holds, and a word of the reason that it gets
    "": "empty",
    '{"cells": [{"cell_type": "code", "sour': "not a notebook",
    '{"nbformat": 3, "worksheets": []}': "formats 4.0 to 4.5",
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
            answers[question.number] = rng.choice(HOSTILE).replace(
                "NAME", question.answer_name
            )
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


def start(folder, out, **engine):
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
        variables=variables | (engine or {"WORKERS": "2"}),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def written(out):
    """Every file that a grading wrote, byte for byte."""
    return {path: data for path, data in contents(out).items() if path != LOCK}


def done(out):
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


def test_every_submission_gets_what_is_known(graded):
    _, files = graded
    grades = {}
    pages = 0
    for path, data in files.items():
        if path.startswith("feedback/"):
            pages += 1
        if path.startswith("results/"):
            grade = Grade.from_json(json.loads(data))
            grades[grade.student] = grade
    assert pages == COUNT

    wrong = []
    for hand_in in crowd():
        grade = grades.pop(hand_in.student)
        is_as_known = points_by_tests(grade) == hand_in.points
        if not is_as_known or hand_in.reason not in (grade.reason or ""):
            wrong.append((hand_in, grade))
    assert not wrong
    assert not grades


def test_interrupted_or_killed_at_any_moment_it_ends_with_the_same_bytes(graded):
    folder, files = graded
    rng = random.Random(20)
    out = folder / "killed"
    counts = []
    share = max(1, COUNT // (KILLS + 2))  # so that kills fall on the whole of the run
    for number in range(KILLS):
        process = start(folder, out)
        until = done(out) + rng.randrange(share // 2, 3 * share // 2 + 1)
        while done(out) < until and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))  # at any point of what is under way
        workers = []
        if process.poll() is None:
            workers = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGINT if number == 0 else signal.SIGKILL)
        assert process.wait(60) != 0 or done(out) == COUNT
        _, alive = psutil.wait_procs(workers, timeout=60)
        assert not alive
        if number == 0:  # Ctrl-C leaves nothing half written
            assert not list(out.rglob("*.part"))
        counts.append(done(out))
    # It went on, and lost nothing.
    assert counts[0] < counts[-1]
    assert counts == sorted(counts)
    assert start(folder, out).wait() == 0
    assert written(out) == files


def test_dask_workers_that_are_killed_are_survived(graded):
    folder, files = graded
    out = folder / "dask"
    # A scheduler and workers that know nothing of this checkout.
    command = [sys.executable, str(ROOT / "course" / "dask" / "local.py"), "2"]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=bare_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as cluster:
        address = cluster.stdout.readline().split("DASK=")[1].split()[0]
        with Client(address, set_as_default=False) as client:
            assert not any(client.run(lambda: "tools" in sys.modules).values())
            process = start(folder, out, DASK=address)
            for share in (0.2, 0.6):
                while done(out) < share * COUNT and process.poll() is None:
                    time.sleep(0.05)
                assert process.poll() is None, "it had ended before a worker was killed"
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            assert process.wait() == 0
            where = client.run(lambda: sys.modules["tools"].__file__)
        cluster.terminate()
    assert written(out) == files
    assert all("/grading-" in path for path in where.values())  # the code that was sent
