"""Measure what the simulation costs: the time of small programs with it and without.

The same work runs on the plain CPU and on a simulated GPU, in turn and on one thread. Its time
is that of the processor, which on an idle machine is the time that passes. The least of several
times is taken for each, as other programs of the machine only add to it.
"""

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import torch

import cudasim
from facts.bench_programs import PROGRAMS, TESTS, Step, processes

ROUNDS = 9
ROUNDS_OF_PROCESSES = 3
SECONDS = 0.02  # for which steps are repeated in a round, on the plain CPU


@dataclass(frozen=True)
class Cost:
    """The time of a step of a program, in seconds, on the CPU and on simulated GPUs."""

    program: str
    plain: float
    simulated: float

    @property
    def times(self) -> float:
        """How many times longer it takes with simulated GPUs."""
        return self.simulated / self.plain


def measure() -> Iterator[Cost]:
    """Yield each cost as soon as it is measured."""
    torch.set_num_threads(1)
    for program in PROGRAMS:
        yield measure_steps(program)
    yield from measure_processes()


def measure_steps(program: Callable[[str], Step]) -> Cost:
    step = program("cpu")
    step()
    count = max(1, round(SECONDS / seconds(step, 3)))
    plain = []
    simulated = []
    for _ in range(ROUNDS):
        plain.append(seconds(step, count))
        with redirect_stdout(io.StringIO()), cudasim.simulate(force=True):
            simulated_step = program("cuda")
            simulated_step()
            simulated.append(seconds(simulated_step, count))
            del simulated_step
    return Cost(program.__doc__ or "", min(plain), min(simulated))


def seconds(step: Step, count: int) -> float:
    """Return the time of a step, of which `count` run."""
    start = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - start) / count


def measure_processes() -> Iterator[Cost]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_it.py").write_text(TESTS, encoding="utf-8")
        for program, *command_lines in processes():
            times: list[list[float]] = [[], []]
            for _ in range(ROUNDS_OF_PROCESSES):
                for arguments, measured in zip(command_lines, times, strict=True):
                    measured.append(_run(arguments, folder))
            plain, simulated = times
            yield Cost(program, min(plain), min(simulated))


def _run(arguments: list[str], folder: str) -> float:
    """Return the time of a process of Python."""
    package = Path(cudasim.__file__).parents[1]
    variables = {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    before = os.times()
    subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        check=True,
        env=os.environ | variables,
    )
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
