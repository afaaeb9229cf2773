"""What grading costs beside the exercises themselves, for the status page.

The exercises take next to no time: what is left is what a submission costs in any case.
"""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from tools.grade.command import engine_for, grade
from tools.grade.engine import Worker
from tools.grade.grade import TRIED, grade_one, strongest, task_of
from tools.grade.splice import splice

COUNT, CORES, RUNS = 1000, 2, 9
TEST = '''
def test_{name}(student, rng):
    """Adds {number} to any number."""
    n = rng.randrange(1000)
    assert student.ask("{name}(n)", n=n) == n + {number}
'''


def assignment() -> dict:
    """Four exercises of a moment each, on two simulated GPUs."""
    questions = []
    for number in range(1, 5):
        name = f"add_{number}"
        check = f"if {name} is not ...:\n    assert {name}(1) == {number + 1}\n'it holds'"
        questions.append(
            {
                **{"number": number, "title": f"Add {number}", "points": 1, "name": name},
                **{"starter": f"{name} = ...", "shows": None, "checks": [check]},
                **{"tests": TEST.format(name=name, number=number), "seconds": 10},
                **{"memory": 1024, "by_hand": None},
            }
        )
    given = [["imports", "import torch\nfrom torch import nn"]]
    told = {"name": "bench", "title": "What grading costs", "class": "0" * 12, "seed": "00"}
    return told | {"runner": "simulated", "given": given, "questions": questions}


def notebook(made: dict, place: int) -> dict:
    """One of a thousand submissions: all right but for one answer in five."""
    cells = [{"cell_type": "code", "metadata": {}, "source": made["given"][0][1]}]
    for question in made["questions"]:
        number, off = question["number"], 0 if (place + question["number"]) % 5 else 1
        mark = {"assignment": {"exercise": number, "part": "answer"}}
        source = f"def {question['name']}(x):\n    return x + {number + off}  # {place}"
        cells.append({"cell_type": "code", "metadata": mark, "source": source})
    told = {"assignment": {"name": made["name"], "class": made["class"]}}
    return {"nbformat": 4, "nbformat_minor": 0, "metadata": told, "cells": cells}


def _task(made: dict, place: int) -> dict:
    return task_of(made, f"s{place}", splice(notebook(made, place), made).cells, student="s")


def warm_seconds() -> float:
    """Wall time of a submission in a process that has graded one."""
    made, seconds = assignment(), []
    for place in range(RUNS + 1):
        start = time.perf_counter()
        grade_one(_task(made, place))
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def cold_seconds() -> float:
    """Wall time of a submission from the start of its worker: Python, PyTorch, sandbox."""
    os.environ[TRIED] = strongest().name
    seconds = []
    for place in range(RUNS):
        worker, start = Worker(), time.perf_counter()
        worker.answer(_task(assignment(), place))
        seconds.append(time.perf_counter() - start)
        worker.end()
    return statistics.median(seconds)


def worker_megabytes() -> float:
    """Memory of a worker and all its processes while it has a session, shared pages shared out."""
    worker = Worker()
    worker.answer(_task(assignment(), 0))
    try:
        first = psutil.Process(worker.process.pid)
        most = sum(each.memory_full_info().pss for each in [first, *first.children(recursive=True)])
    finally:
        worker.end()
    return most / 1e6


def class_seconds(count: int = COUNT, address: str | None = None) -> tuple[float, float]:
    """(seconds, bytes of a page of feedback) of `count` submissions on two cores.

    From the files to the last report; by the workers of `address` if it is given.
    """
    made = assignment()
    with tempfile.TemporaryDirectory() as folder:
        submissions = Path(folder, "submissions")
        submissions.mkdir()
        for place in range(count):
            text = json.dumps(notebook(made, place))
            (submissions / f"student-{place:04}.ipynb").write_text(text, encoding="utf-8")
        engine, start = engine_for(CORES, address), time.perf_counter()
        results = grade(submissions, [made], Path(folder, "out"), engine)
        seconds = time.perf_counter() - start
        assert len(results) == count and {each["points"] for each in results} == {3, 4}
        pages = [path.stat().st_size for path in Path(folder, "out", "feedback").iterdir()]
    return seconds, statistics.mean(pages)


def dask_seconds(count: int = COUNT) -> float:
    """The same by two workers of a local Dask cluster, the start of the workers left out."""
    from distributed import LocalCluster

    options = {"n_workers": CORES, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster:
        return class_seconds(count, cluster.scheduler_address)[0]


def figures(count: int = COUNT) -> list[tuple[str, float, str, str]]:
    """(what, value, unit, aim) of each figure, with the sandbox that was measured."""
    name = strongest().about
    warm, cold, memory = warm_seconds(), cold_seconds(), worker_megabytes()
    seconds, page = class_seconds(count)
    return [
        (f"Overhead of a warm submission ({name})", round(warm, 2), "s", "0.3 s"),
        ("Overhead of a cold submission", round(cold, 2), "s", "2.5 s"),
        (f"{count} submissions on two cores", round(seconds / 60, 1), "min", "5 min"),
        (f"{count} through Dask, two workers", round(dask_seconds(count) / 60, 1), "min", ""),
        ("Memory of a worker with its sandbox", round(memory), "MB", ""),
        ("A page of feedback, four exercises", round(page), "bytes", ""),
    ]
