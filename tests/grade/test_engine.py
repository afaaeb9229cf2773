"""Workers that die are survived, few tasks are under way at a time, and an end is an end."""

import itertools
import sys
import textwrap

import pytest
from classroom import SMALL
from helpers import wait_until

from tools.errors import BookError
from tools.grade import engine
from tools.grade.grade import NoSandbox

STAND_IN = """
import json, os, signal, sys, time
for line in sys.stdin:
    task = json.loads(line)
    name = task["submission"]
    mark = os.path.join({folder!r}, name)
    if name.startswith("dies") and (name == "dies always" or not os.path.exists(mark)):
        open(mark, "a").write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "sleeps":
        open(mark, "w").close()
        time.sleep(600)
    answer = {{"result": {{"submission": name}}}}
    if name == "fault":
        answer = {{"fault": "it is ill"}}
    if name == "none":
        answer = {{"no sandbox": "there is none"}}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def workers(tmp_path, monkeypatch):
    """Workers that grade nothing, as their tasks' names say; gives the numbers of processes."""
    program = tmp_path / "worker.py"
    program.write_text(textwrap.dedent(STAND_IN).format(folder=str(tmp_path)))
    real, started = engine.subprocess.Popen, []

    def start(command, **options):
        started.append(real([sys.executable, str(program)], **options | {"cwd": tmp_path}))
        return started[-1]

    monkeypatch.setattr(engine.subprocess, "Popen", start)
    yield started
    assert not any(process.poll() is None for process in started)


def task(name):
    return {"submission": name, "student": name, "assignment": SMALL}


def graded(names, workers=2):
    found = engine.on_this_machine(map(task, names), workers)
    return {done["submission"]: result for done, result in found}


def test_worker_that_dies_is_replaced_and_a_task_that_kills_all_is_a_row_with_a_reason(workers):
    names = ["a", "dies once", "b", "dies too", "c"]
    found = graded([*names, "dies always", "fault"])
    deadly, ill = found.pop("dies always"), found.pop("fault")
    assert found == {name: {"submission": name} for name in names}
    assert deadly["status"] == "refused" and "ended every worker" in deadly["reason"]
    assert isinstance(ill, BookError)


def test_no_sandbox_stops_all(workers):
    with pytest.raises(NoSandbox, match="there is none"):
        graded(["none", *map(str, range(50))])


def test_few_tasks_are_taken_ahead(workers):
    taken = itertools.count()
    found = engine.on_this_machine((task(str(next(taken))) for _ in range(1000)), 2)
    for _ in range(5):
        next(found)
    found.close()
    assert next(taken) <= 5 + 2 * engine.AHEAD


def test_interrupt_leaves_no_worker(workers, tmp_path):
    found = engine.on_this_machine(map(task, ["a", "sleeps", "sleeps"]), 2)
    next(found)
    wait_until(lambda: (tmp_path / "sleeps").exists())
    with pytest.raises(KeyboardInterrupt):
        found.throw(KeyboardInterrupt())
    assert all(process.poll() is not None for process in workers)


def test_dask_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(engine, "WAIT", 1)
    with pytest.raises(BookError, match=r"DASK=tcp://127.0.0.1:1: no scheduler answers"):
        list(engine.on_dask([task("a")], "tcp://127.0.0.1:1"))


def test_worker_ends_when_its_coordinator_does():
    process = engine.start_worker()
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
