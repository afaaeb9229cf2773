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
from helpers import wait_until

from coursework.grade import engine
from coursework.grade.sandbox import NoSandbox
from tools.errors import BookError


def answer(task):
    """What a task is called says what happens to it."""
    name, mark = task["submission"], Path(task["folder"], task["submission"])
    first = not mark.exists()
    mark.touch()
    if name == "dies always" or (name.startswith("dies") and first):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "sleeps":
        time.sleep(600)
    special = {"fault": BookError("it is ill"), "none": NoSandbox("there is none")}
    return special.get(name, {"submission": name})


def serve(tasks):
    """Be a worker that grades nothing."""
    engine.answer_to = answer
    engine.serve(tasks)


@pytest.fixture
def grade(tmp_path, monkeypatch):
    """Grades by such workers; when a test ends, none is left."""
    monkeypatch.setattr(engine, "serve", serve)

    def run(names):
        about = {"assignment": SMALL, "folder": str(tmp_path)}
        tasks = (about | {"submission": name, "student": name} for name in names)
        return engine.on_this_machine(tasks, 2)

    yield run
    assert multiprocessing.active_children() == []


def test_worker_that_dies_is_replaced_and_a_task_that_kills_all_is_a_row_with_a_reason(
    grade,
):
    names = ["a", "dies once", "b", "dies too", "c"]
    outcomes = grade([*names, "dies always", "fault"])
    found = {task["submission"]: result for task, result in outcomes}
    deadly, ill = found.pop("dies always"), found.pop("fault")
    assert found == {name: {"submission": name} for name in names}
    assert "ended every worker" in str(deadly)
    assert isinstance(deadly, BookError) and isinstance(ill, BookError)


def test_few_tasks_are_taken_ahead_and_no_sandbox_stops_all(grade):
    taken = itertools.count()
    found = grade(str(next(taken)) for _ in range(1000))
    for _ in range(5):
        next(found)
    found.close()
    assert next(taken) <= 5 + 2
    with pytest.raises(NoSandbox, match="there is none"):
        list(grade(["none", *map(str, range(50))]))


def test_interrupt_leaves_no_worker(grade, tmp_path):
    found = grade(["a", "sleeps", "sleeps"])
    next(found)
    wait_until((tmp_path / "sleeps").exists)
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt())


def test_dask_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(engine, "WAIT", 1)
    with pytest.raises(
        BookError, match=r"DASK=tcp://127.0.0.1:1: no scheduler answers"
    ):
        list(engine.on_dask([], "tcp://127.0.0.1:1"))


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
        wait_until(lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
        workers = psutil.Process(coordinator.pid).children()
        coordinator.kill()
    assert len(workers) >= 2
    wait_until(lambda: not any(worker.is_running() for worker in workers))
