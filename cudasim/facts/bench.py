"""Measure what the simulation costs.

Each figure compares the same work on the plain CPU and on a simulated GPU, in turn, in one
process and on one thread, and is the median of several such pairs. Microseconds differ by a
factor of two between machines. Most figures are therefore multiples of what an empty dispatch
mode costs in the same run: no engine in Python can cost less.
"""

import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
PROCESSES = 5
EMPTY_MODE = "times the empty mode"

Work = Callable[[], object]
Operation = Callable[[Tensor], object]

# The machine's clock, even while modelled time replaces the name in `time`.
_now = time.perf_counter


@dataclass(frozen=True)
class Figure:
    """A measured cost, and what we aim for."""

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
    """Return the wall time of one call of `work` under simulation."""
    with redirect_stdout(io.StringIO()), cudasim.simulate(force=True, clock=clock):
        return seconds(work)


def median_of_pairs(measure: Callable[[], float]) -> float:
    """Return the median of several measurements, after one that warms up."""
    measure()
    return statistics.median(measure() for _ in range(PAIRS))


def added(plain: Work, simulated: Work) -> float:
    """Return the seconds that the simulation adds to a piece of work."""

    def measure() -> float:
        before = seconds(plain)
        return in_simulation(simulated) - before

    return median_of_pairs(measure)


def longer(plain: Work, simulated: Work) -> float:
    """Return how many times longer a piece of work takes under simulation."""

    def measure() -> float:
        before = seconds(plain)
        return in_simulation(simulated) / before

    return median_of_pairs(measure)


def multiple(plain: Work, simulated: Work) -> float:
    """Return the time that the simulation adds, as a multiple of what an empty mode adds."""

    def measure() -> float:
        before = seconds(plain)
        with Empty():
            empty = seconds(plain)
        cost = in_simulation(simulated) - before
        return cost / (empty - before)

    return median_of_pairs(measure)


def longer_with_clock(work: Work) -> float:
    """Return how many times longer a simulation takes with modelled time than without."""

    def measure() -> float:
        before = in_simulation(work)
        return in_simulation(work, "modelled") / before

    return median_of_pairs(measure)


def add(x: Tensor) -> Tensor:
    """Add a tensor to itself."""
    return x + x


def add_in_place(x: Tensor) -> Tensor:
    """Add one to each number."""
    return x.add_(1)


def flat_view(x: Tensor) -> Tensor:
    """Return a flat view."""
    return x.view(-1)


def repeat(operation: Operation, device: str, count: int) -> Work:
    """Return work that applies an operation `count` times to 2 x 3 numbers."""

    def work() -> None:
        x = torch.ones(2, 3, device=device)
        for _ in range(count):
            operation(x)

    return work


def operation_multiple(operation: Operation, device: str) -> float:
    """Return `multiple` for an operation on `device`."""
    count = 10_000
    plain = repeat(operation, "cpu", count)
    simulated = repeat(operation, device, count)
    return multiple(plain, simulated)


def addition_cost(device: str) -> float:
    """Return the microseconds that the simulation adds to a 2 x 3 addition."""
    count = 20_000
    plain = repeat(add, "cpu", count)
    simulated = repeat(add, device, count)
    return 1e6 * added(plain, simulated) / count


@dataclass(frozen=True)
class Training:
    """A training run of `steps` steps on one batch."""

    make_net: Callable[[], nn.Module]
    batch: Tensor
    steps: int

    def on(self, device: str) -> Work:
        """Return work that trains on `device`."""

        def work() -> None:
            torch.manual_seed(0)
            net = self.make_net().to(device)
            X = self.batch.to(device)
            y = torch.arange(len(X), device=device) % 10
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for _ in range(self.steps):
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


def loading_times() -> tuple[float, float]:
    """Return the milliseconds that `import cudasim`, after torch, and `enable` take."""
    _load()  # compiles the package, as installing it does
    imports = []
    enables = []
    for _ in range(PROCESSES):
        imported, enabled = _load()
        imports.append(1e3 * imported)
        enables.append(1e3 * enabled)
    return statistics.median(imports), statistics.median(enables)


def _load() -> tuple[float, float]:
    """Return the seconds of an import and of `enable` in a new process."""
    package = Path(cudasim.__file__).parents[1]
    variables = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | variables,
    )
    imported, enabled = done.stdout.splitlines()[-1].split()
    return float(imported), float(enabled)


def renewal_time() -> float:
    """Return the milliseconds in which the pytest plugin makes two GPUs fresh for a test."""
    tests = 100

    def work() -> None:
        for _ in range(tests):
            torch.ones(1000, device="cuda:1")
            Gpus().renew()

    times = [in_simulation(work) for _ in range(PAIRS)]
    return 1e3 * statistics.median(times) / tests


def measure() -> Iterator[Figure]:
    """Yield each figure as soon as it is measured."""
    torch.set_num_threads(1)
    yield from _operation_multiples()
    yield from _training_multiples()
    yield from _addition_times()
    yield from _training_times()
    yield from _loading_times()


def _operation_multiples() -> Iterator[Figure]:
    value = operation_multiple(add, "cuda")
    yield Figure("added to a 2 x 3 addition on a GPU", value, EMPTY_MODE, "1.4")

    value = operation_multiple(flat_view, "cuda")
    yield Figure("added to a view on a GPU", value, EMPTY_MODE, "1.15")

    value = operation_multiple(add_in_place, "cuda")
    yield Figure("added to an operation in place on a GPU", value, EMPTY_MODE, "1.3")

    value = operation_multiple(add, "cpu")
    yield Figure("added to an operation of CPU tensors", value, EMPTY_MODE, "1.15")


def _training_multiples() -> Iterator[Figure]:
    # Batches are small: the arithmetic of larger ones would drown the difference.
    training = Training(mlp, torch.rand(8, 784), steps=200)
    value = multiple(training.on("cpu"), training.on("cuda"))
    yield Figure("added to the MLP, batch 8", value, EMPTY_MODE, "1.4")

    training = Training(lenet, torch.rand(2, 1, 28, 28), steps=100)
    value = multiple(training.on("cpu"), training.on("cuda"))
    yield Figure("added to LeNet, batch 2", value, EMPTY_MODE, "1.4")


def _addition_times() -> Iterator[Figure]:
    value = addition_cost("cuda")
    yield Figure("added to a 2 x 3 addition on a GPU", value, "us", "under 5 us")

    value = addition_cost("cpu")
    yield Figure("added to a 2 x 3 addition on the CPU", value, "us", "under 2 us")


def _training_times() -> Iterator[Figure]:
    training = Training(mlp, torch.rand(256, 784), steps=200)
    value = longer(training.on("cpu"), training.on("cuda"))
    what = "MLP 784-256-10, batch 256, 200 steps, to plain CPU"
    yield Figure(what, value, "times", "1.25")

    value = longer_with_clock(training.on("cuda"))
    what = "the same MLP with modelled time, to without"
    yield Figure(what, value, "times", "1.15")

    training = Training(lenet, torch.rand(64, 1, 28, 28), steps=20)
    value = longer(training.on("cpu"), training.on("cuda"))
    what = "LeNet, batch 64, 20 steps, to plain CPU"
    yield Figure(what, value, "times", "1.1")


def _loading_times() -> Iterator[Figure]:
    imported, enabled = loading_times()
    yield Figure("import cudasim, after torch", imported, "ms", "10 ms with enable")
    yield Figure("cudasim.enable()", enabled, "ms", "10 ms with import")

    value = renewal_time()
    yield Figure("two fresh GPUs for a test", value, "ms", "at most 5 ms")
