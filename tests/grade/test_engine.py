"""Workers that die are survived, few tasks are under way at a time, and an end is an end."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from classroom import SMALL
from helpers import refused, wait_until

from coursework.grade import engine
from coursework.grade.sandbox import NoSandbox
from tools.errors import BookError


def answer(task):
    """Do what the name of a task says, and answer with its name."""
    name = task["submission"]
    mark = Path(task["folder"], name)
    is_first = not mark.exists()
    mark.touch()
    if name == "dies always" or (name.startswith("dies") and is_first):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "sleeps":
        time.sleep(600)
    if name == "fault":
        return BookError("it is ill")
    if name == "none":
        return NoSandbox("there is none")
    return {"submission": name}


def serve(tasks):
    """Be a worker that grades nothing."""
    engine.answer_to = answer
    engine.serve(tasks)


@pytest.fixture
def grade(tmp_path, monkeypatch):
    """Grades by such workers; when a test ends, none is left."""
    monkeypatch.setattr(engine, "serve", serve)

    def tasks(names):
        for name in names:
            yield {
                "assignment": SMALL,
                "folder": str(tmp_path),
                "submission": name,
                "student": name,
            }

    yield lambda names: engine.on_this_machine(tasks(names), 2)
    assert multiprocessing.active_children() == []


def test_a_worker_that_dies_is_replaced(grade):
    names = ["a", "dies once", "b", "dies too", "c", "fault"]
    outcomes = {task["submission"]: outcome for task, outcome in grade(names)}

    fault = outcomes.pop("fault")
    assert isinstance(fault, BookError)
    assert outcomes == {
        "a": {"submission": "a"},
        "dies once": {"submission": "dies once"},
        "b": {"submission": "b"},
        "dies too": {"submission": "dies too"},
        "c": {"submission": "c"},
    }


def test_a_task_that_kills_every_worker_has_a_reason(grade):
    outcomes = {
        task["submission"]: outcome
        for task, outcome in grade(["a", "dies always", "b"])
    }
    assert outcomes["a"] == {"submission": "a"}
    assert outcomes["b"] == {"submission": "b"}
    deadly = outcomes["dies always"]
    assert isinstance(deadly, BookError)
    assert "ended every worker" in str(deadly)


def test_few_tasks_are_taken_ahead(grade):
    numbers = itertools.count()
    outcomes = grade(str(next(numbers)) for _ in range(1000))
    for _ in range(5):
        next(outcomes)
    outcomes.close()
    # One for each worker.
    assert next(numbers) <= 5 + 2


def test_no_sandbox_stops_all(grade):
    names = [str(number) for number in range(50)]
    with pytest.raises(NoSandbox, match="there is none"):
        list(grade(["none", *names]))


def test_interrupt_leaves_no_worker(grade, tmp_path):
    outcomes = grade(["a", "sleeps", "sleeps"])
    next(outcomes)
    wait_until((tmp_path / "sleeps").exists)
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt())


def test_dask_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(engine, "WAIT", 1)
    address = "tcp://127.0.0.1:1"
    with refused(f"DASK={address}: no scheduler answers"):
        list(engine.on_dask([], address))


COORDINATOR = """
import sys, test_engine, time
from coursework.grade import engine
def tasks():
    for name in ("a", "b"):
        yield {"submission": name, "folder": sys.argv[1]}
    time.sleep(600)
engine.serve = test_engine.serve
list(engine.on_this_machine(tasks(), 2))
"""


def test_workers_end_when_their_coordinator_is_killed(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COORDINATOR, str(tmp_path)]
    with subprocess.Popen(command, env=environment) as coordinator:
        wait_until((tmp_path / "a").exists)
        wait_until((tmp_path / "b").exists)
        workers = psutil.Process(coordinator.pid).children()
        coordinator.kill()
    assert len(workers) >= 2
    wait_until(lambda: not any(worker.is_running() for worker in workers))
