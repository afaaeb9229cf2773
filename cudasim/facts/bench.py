"""What the simulation costs.

Each figure compares the same work on the plain CPU and on a simulated GPU, in turn, in one
process and on one thread; the median of the pairs is reported. Microseconds differ by a factor of
two between machines. So what is added is also told as a multiple of what a dispatch mode adds that
does nothing, the floor of any engine in Python, in the same run.
"""

import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import cudasim
from cudasim.modes import LightMode
from cudasim.testing.gpus import Gpus

PAIRS = 7
EMPTY_MODE = "times the empty mode"

Work = Callable[[], object]
_now = time.perf_counter  # the machine's, whatever clock runs


@dataclass(frozen=True)
class Figure:
    """One figure, with what it should be."""

    what: str
    value: float
    unit: str
    aim: str


class Empty(LightMode):
    """A dispatch mode that does nothing."""

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`."""
        return func(*args, **(kwargs or {}))


def seconds(work: Work) -> float:
    """Return the wall time of one call of `work`."""
    start = _now()
    work()
    return _now() - start


def in_simulation(work: Work, clock: str | None = None) -> float:
    """Return the wall time of one call under simulation, by the machine's clock."""
    with redirect_stdout(io.StringIO()), cudasim.simulate(force=True, clock=clock):
        return seconds(work)


def median_of_pairs(measure: Callable[[], float]) -> float:
    """Return the median of several measurements, after one that warms up."""
    measure()
    return statistics.median(measure() for _ in range(PAIRS))


def added(plain: Work, simulated: Work) -> float:
    """Return the seconds that the simulation adds to some work."""

    def measure() -> float:
        before = seconds(plain)
        return in_simulation(simulated) - before

    return median_of_pairs(measure)


def longer(plain: Work, simulated: Work) -> float:
    """Return how many times longer some work takes under simulation."""

    def measure() -> float:
        before = seconds(plain)
        return in_simulation(simulated) / before

    return median_of_pairs(measure)


def multiple(plain: Work, simulated: Work) -> float:
    """Return what the simulation adds to some work, over what an empty mode adds to it."""

    def measure() -> float:
        before = seconds(plain)
        with Empty():
            empty = seconds(plain)
        return (in_simulation(simulated) - before) / (empty - before)

    return median_of_pairs(measure)


def clocked(work: Work) -> float:
    """Return how many times longer a simulation takes with modelled time than without."""

    def measure() -> float:
        before = in_simulation(work)
        return in_simulation(work, "modelled") / before

    return median_of_pairs(measure)


def add(x: Tensor) -> Tensor:
    """The smallest operation."""
    return x + x


def repeat(operation: Callable[[Tensor], object], device: str, count: int) -> Work:
    """Return a function that does an operation on 2 x 3 numbers so many times."""

    def work() -> None:
        x = torch.ones(2, 3, device=device)
        for _ in range(count):
            operation(x)

    return work


def multiple_of(operation: Callable[[Tensor], object], device: str) -> float:
    """Return `multiple` of an operation on `device`."""
    count = 10_000
    return multiple(repeat(operation, "cpu", count), repeat(operation, device, count))


def addition(device: str) -> float:
    """Return the microseconds that the simulation adds to a 2 x 3 addition."""
    count = 20_000
    seconds_added = added(repeat(add, "cpu", count), repeat(add, device, count))
    return seconds_added / count * 1e6


def trainer(
    make: Callable[[], nn.Module], batch: Tensor, steps: int, device: str
) -> Work:
    """Return a function that trains for so many `steps` on `device`."""

    def work() -> None:
        torch.manual_seed(0)
        net, X = make().to(device), batch.to(device)
        y = torch.arange(len(batch), device=device) % 10
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(X), y).backward()
            optimizer.step()

    return work


def mlp() -> nn.Module:
    """Return a perceptron with one hidden layer: 784-256-10."""
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet() -> nn.Module:
    """Return LeNet for images of shape (1, 28, 28)."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.Sigmoid(),
        nn.Linear(120, 84),
        nn.Sigmoid(),
        nn.Linear(84, 10),
    )


LOADING = """
import time, torch
start = time.perf_counter()
import cudasim
imported = time.perf_counter()
cudasim.enable(force=True)
print(imported - start, time.perf_counter() - imported)
"""


def loading() -> tuple[float, float]:
    """Return the milliseconds of `import cudasim`, after torch, and of `enable`."""
    package = Path(cudasim.__file__).parents[1]
    # An installed package is compiled: the first process sees to it.
    variables = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": str(package)}
    imports, enables = [], []
    for _ in range(6):
        done = subprocess.run(
            [sys.executable, "-c", LOADING],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | variables,
        )
        imported, enabled = done.stdout.splitlines()[-1].split()
        imports.append(1e3 * float(imported))
        enables.append(1e3 * float(enabled))
    return statistics.median(imports[1:]), statistics.median(enables[1:])


def renewing() -> float:
    """Return the milliseconds in which pytest's plugin makes two GPUs fresh for a test."""
    tests = 100

    def work() -> None:
        for _ in range(tests):
            torch.ones(1000, device="cuda:1")
            Gpus().renew()

    times = [in_simulation(work) for _ in range(PAIRS)]
    return 1e3 * statistics.median(times) / tests


def measure() -> list[Figure]:
    """Return all figures."""
    torch.set_num_threads(1)
    return [*_multiples(), *_times(), *_loading()]


def _multiples() -> list[Figure]:
    figures = []
    for what, operation, device, aim in (
        ("a 2 x 3 addition on a GPU", add, "cuda", "1.4"),
        ("a view on a GPU", lambda x: x.view(-1), "cuda", "1.15"),
        ("an operation in place on a GPU", lambda x: x.add_(1), "cuda", "1.3"),
        ("an operation of CPU tensors", add, "cpu", "1.15"),
    ):
        value = multiple_of(operation, device)
        figures.append(Figure(f"added to {what}", value, EMPTY_MODE, aim))

    # Few examples, as arithmetic would drown the difference.
    for what, make, batch, steps in (
        ("the MLP, batch 8", mlp, torch.rand(8, 784), 200),
        ("LeNet, batch 2", lenet, torch.rand(2, 1, 28, 28), 100),
    ):
        works = (trainer(make, batch, steps, device) for device in ("cpu", "cuda"))
        figures.append(Figure(f"added to {what}", multiple(*works), EMPTY_MODE, "1.4"))
    return figures


def _times() -> list[Figure]:
    what = "added to a 2 x 3 addition on a GPU"
    figures = [Figure(what, addition("cuda"), "us", "under 5 us")]
    what = "added to a 2 x 3 addition on the CPU"
    figures.append(Figure(what, addition("cpu"), "us", "under 2 us"))

    images = torch.rand(256, 784)
    plain, simulated = (trainer(mlp, images, 200, device) for device in ("cpu", "cuda"))
    what = "MLP 784-256-10, batch 256, 200 steps, to plain CPU"
    figures.append(Figure(what, longer(plain, simulated), "times", "1.25"))
    what = "the same MLP with modelled time, to without"
    figures.append(Figure(what, clocked(simulated), "times", "1.15"))

    images = torch.rand(64, 1, 28, 28)
    works = (trainer(lenet, images, 20, device) for device in ("cpu", "cuda"))
    what = "LeNet, batch 64, 20 steps, to plain CPU"
    figures.append(Figure(what, longer(*works), "times", "1.1"))
    return figures


def _loading() -> list[Figure]:
    imported, enabled = loading()
    return [
        Figure("import cudasim, after torch", imported, "ms", "10 ms with enable"),
        Figure("cudasim.enable()", enabled, "ms", "10 ms with import"),
        Figure("two fresh GPUs for a test", renewing(), "ms", "at most 5 ms"),
    ]
