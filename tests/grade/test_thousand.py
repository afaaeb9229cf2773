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

import psutil
import pytest
from classroom import DATA, KEY, RIGHT, SMALL, WRONG, contents, edition, small
from distributed import Client
from helpers import ROOT, bare_environment, start_tool

from coursework.grade.store import LOCK

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


def crowd():
    """A class of any size: what each hands in, and their exercises' points or a word of a refusal.

    The same for every worker of the tests.
    """
    rng, names = (
        random.Random(1),
        {asked.number: asked.name for asked in SMALL.questions},
    )
    for place in range(COUNT):
        student, kind = f"student-{place:04}", rng.random()
        if kind < 0.06:
            yield student, *rng.choice(list(BROKEN.items()))
            continue
        answers, points = {}, dict.fromkeys(RIGHT, 0)
        for number in names:
            what = rng.choice(["right", "right", "wrong", "blank"])
            if what != "blank":
                source = (RIGHT if what == "right" else WRONG)[number]
                answers[number] = f"{source}  # {rng.random()}"
                points[number] = 3 if what == "right" else 0
        if kind < 0.2:
            number = rng.choice(list(names))
            answers[number] = rng.choice(HOSTILE).replace("NAME", names[number])
            points[number] = 0
        yield student, json.dumps(edition(answers)), points


def start(folder, out, **engine):
    """Start `make grade` in a process group of its own."""
    variables = {
        "SUBMISSIONS": str(folder / "submissions"),
        "MASTERS": str(DATA / "class"),
    }
    variables |= {"CLASS": KEY, "OUT": str(out)} | (engine or {"WORKERS": "2"})
    quiet = {"stdout": subprocess.DEVNULL, "start_new_session": True}
    return start_tool(ROOT, "grade", variables=variables, **quiet)


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
        for student, text, _ in crowd():
            (folder / "submissions" / f"{student}.ipynb").write_text(
                text, encoding="utf-8"
            )
        assert start(folder, folder / "plain").wait() == 0

    folder = once("crowd", make)
    return folder, written(folder / "plain")


def test_every_submission_gets_what_is_known(graded):
    results = [
        json.loads(data)
        for path, data in graded[1].items()
        if path.startswith("results/")
    ]
    by_student, wrong = {result["student"]: result for result in results}, []
    for student, _, known in crowd():
        result = by_student.pop(student)
        got = {
            int(number): asked["points"]
            for number, asked in result["questions"].items()
        }
        if (
            got != known
            if isinstance(known, dict)
            else known not in str(result["reason"])
        ):
            wrong.append((student, known, got, result["reason"]))
    assert not wrong and not by_student
    assert sum(path.startswith("feedback/") for path in graded[1]) == COUNT


def test_interrupted_or_killed_at_any_moment_it_ends_with_the_same_bytes(graded):
    folder, files = graded
    rng, out, at = random.Random(20), folder / "killed", []
    for number in range(KILLS):
        process, before = start(folder, out), done(out)
        share = max(
            1, COUNT // (KILLS + 2)
        )  # so that kills fall on the whole of the run
        until = before + rng.randrange(share // 2, 3 * share // 2 + 1)
        while done(out) < until and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))  # at any point of what is under way
        workers = []
        if process.poll() is None:
            workers = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, signal.SIGINT if number == 0 else signal.SIGKILL)
        assert process.wait(60) != 0 or done(out) == COUNT
        assert not psutil.wait_procs(workers, timeout=60)[1]
        assert number or not list(
            out.rglob("*.part")
        )  # Ctrl-C leaves nothing half written
        at.append(done(out))
    assert at[0] < at[-1] and at == sorted(at), at  # it went on, and lost nothing
    assert start(folder, out).wait() == 0
    assert written(out) == files


def test_dask_workers_that_are_killed_are_survived(graded):
    folder, files = graded
    out = folder / "dask"
    # A scheduler and workers that know nothing of this checkout.
    command = [sys.executable, str(ROOT / "course" / "dask" / "local.py"), "2"]
    options = {
        "cwd": folder,
        "env": bare_environment(),
        "stdout": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(command, **options) as cluster:
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
