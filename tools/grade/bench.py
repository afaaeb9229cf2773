"""What grading costs beside the exercises themselves, which take next to no time here."""

import json
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from tools.grade.command import engine_for, grade
from tools.grade.engine import Worker
from tools.grade.grade import strongest, task_of
from tools.grade.splice import splice

COUNT, CORES = 1000, 2
TEST = '''
def test_{name}(student, rng):
    """Adds {number} to any number."""
    n = rng.randrange(1000)
    assert student.ask("{name}(n)", n=n) == n + {number}
'''
IMPORTS = "import torch\nfrom torch import nn"
ABOUT = {"name": "bench", "class": "0" * 12}


def assignment() -> dict:
    """Four exercises of a moment each, on two simulated GPUs."""
    questions = [
        {
            **{"number": number, "title": f"Add {number}", "points": 1, "name": name},
            **{"starter": f"{name} = ...", "shows": None, "seconds": 10, "memory": 1024},
            "checks": [f"if {name} is not ...:\n    assert {name}(1) == {number + 1}"],
            **{"tests": TEST.format(name=name, number=number), "by_hand": None},
        }
        for number, name in ((number, f"add_{number}") for number in range(1, 5))
    ]
    about = {"title": "What grading costs", "seed": "00", "runner": "simulated"}
    return ABOUT | about | {"given": [["imports", IMPORTS]], "questions": questions}


def notebook(place: int) -> dict:
    """One submission of many: all right but for one answer in five."""
    cells = [{"cell_type": "code", "metadata": {}, "source": IMPORTS}]
    for number in range(1, 5):
        mark = {"assignment": {"exercise": number, "part": "answer"}}
        right = number if (place + number) % 5 else 0
        source = f"def add_{number}(x):\n    return x + {right}  # {place}"
        cells.append({"cell_type": "code", "metadata": mark, "source": source})
    return {"nbformat": 4, "nbformat_minor": 0, "metadata": {"assignment": ABOUT}, "cells": cells}


def class_seconds(count: int, cores: int, address: str | None = None) -> tuple[float, float]:
    """(seconds from `count` files to the last report, bytes of a page of feedback)."""
    with tempfile.TemporaryDirectory() as folder:
        submissions, out = Path(folder, "submissions"), Path(folder, "out")
        submissions.mkdir()
        for place in range(count):
            path = submissions / f"student-{place:04}.ipynb"
            path.write_text(json.dumps(notebook(place)), encoding="utf-8")
        start = time.perf_counter()
        results = grade(submissions, [assignment()], out, engine_for(cores, address))
        seconds = time.perf_counter() - start
        assert len(results) == count and {result["points"] for result in results} <= {3, 4}
        return seconds, statistics.mean(page.stat().st_size for page in out.glob("feedback/*"))


def worker_megabytes() -> float:
    """Memory of a worker and all its processes, shared pages shared out."""
    worker, made = Worker(), assignment()
    worker.answer(task_of(made, "s", splice(notebook(0), made).cells))
    first = psutil.Process(worker.process.pid)
    pages = [one.memory_full_info().pss for one in [first, *first.children(recursive=True)]]
    worker.end()
    return sum(pages) / 1e6


def figures() -> list[tuple[str, float, str, str]]:
    """(what, value, unit, aim) of each figure, with the sandbox that was measured."""
    from distributed import LocalCluster

    (cold, _), (seconds, page) = class_seconds(1, 1), class_seconds(COUNT, CORES)
    warm = (seconds - cold) * CORES / (COUNT - CORES)
    with LocalCluster(n_workers=CORES, threads_per_worker=1, dashboard_address=None) as cluster:
        by_dask, _ = class_seconds(COUNT, CORES, cluster.scheduler_address)
    return [
        (f"Overhead of a warm submission ({strongest().about})", round(warm, 2), "s", "0.3 s"),
        ("Overhead of a cold submission", round(cold, 2), "s", "2.5 s"),
        (f"{COUNT} submissions on two cores", round(seconds / 60, 1), "min", "5 min"),
        (f"{COUNT} through Dask, two workers", round(by_dask / 60, 1), "min", ""),
        ("Memory of a worker with its sandbox", round(worker_megabytes()), "MB", ""),
        ("A page of feedback, four exercises", round(page), "bytes", ""),
    ]
