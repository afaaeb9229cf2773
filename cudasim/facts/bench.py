"""What the simulation costs.

Each figure compares the same work on the plain CPU and on a simulated GPU, in turn, in one
process and on one thread; the median of the pairs is reported. Microseconds differ by two between
machines. So what is added is also told as a multiple of what a dispatch mode adds that does
nothing, the floor of any engine in Python, in the same run.
"""

import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import cudasim
from cudasim.modes import LightMode
from cudasim.testing.gpus import Gpus

PAIRS = 7


_now = time.perf_counter  # the machine's, whatever clock runs


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call of `work`."""
    start = _now()
    work()
    return _now() - start


def pairs(plain: Callable[[], object], simulated: Callable[[], object]) -> list[tuple]:
    """(plain, simulated) seconds of each pair; the simulated half runs under simulation."""
    found = []
    for _ in range(PAIRS + 1):
        before = seconds(plain)
        found.append((before, in_simulation(simulated)))
    return found[1:]  # the first pair warms up


def in_simulation(work: Callable[[], object], clock: str | None = None) -> float:
    """Wall time of one call of `work` under simulation, on the machine's clock in any case."""
    with redirect_stdout(io.StringIO()), cudasim.simulate(force=True, clock=clock):
        return seconds(work)


class Empty(LightMode):
    """A dispatch mode that does nothing."""

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`."""
        return func(*args, **(kwargs or {}))


def multiple(plain: Callable[[], object], simulated: Callable[[], object]) -> float:
    """What the simulation adds to some work, over what an empty dispatch mode adds to it."""
    found = []
    for _ in range(PAIRS + 1):
        before = seconds(plain)
        with Empty():
            empty = seconds(plain)
        found.append((in_simulation(simulated) - before) / (empty - before))
    return statistics.median(found[1:])


OPERATIONS: dict[str, Callable[[Tensor], object]] = {
    "a 2 x 3 addition": lambda x: x + x,
    "a view": lambda x: x.view(-1),
    "an operation in place": lambda x: x.add_(1),
}


def repeated(
    operation: Callable[[Tensor], object], device: str, count: int = 10_000
) -> Callable:
    """A function that does an `operation` on 2 x 3 numbers on `device` so many times."""

    def work() -> None:
        x = torch.ones(2, 3, device=device)
        for _ in range(count):
            operation(x)

    return work


def added(operation: Callable[[Tensor], object], device: str) -> float:
    """What the simulation adds to an `operation`, as `multiple` tells it."""
    return multiple(repeated(operation, "cpu"), repeated(operation, device))


def addition(device: str, count: int = 20_000) -> float:
    """Microseconds that the simulation adds to a 2 x 3 addition on `device`."""

    def add(place: str) -> Callable[[], None]:
        def work() -> None:
            x = torch.ones(2, 3, device=place)
            for _ in range(count):
                x + x

        return work

    times = pairs(add("cpu"), add(device))
    return statistics.median((after - before) / count * 1e6 for before, after in times)


def trainer(
    make: Callable[[], nn.Module], batch: Tensor, steps: int, device: str
) -> Callable:
    """A function that trains for so many `steps` on `device`."""

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


def training(make: Callable[[], nn.Module], batch: Tensor, steps: int) -> float:
    """How many times longer `steps` training steps take on a simulated GPU."""
    times = pairs(*(trainer(make, batch, steps, device) for device in ("cpu", "cuda")))
    return statistics.median(after / before for before, after in times)


def training_added(make: Callable[[], nn.Module], batch: Tensor, steps: int) -> float:
    """What the simulation adds to `steps` training steps, as `multiple` tells it."""
    return multiple(
        *(trainer(make, batch, steps, device) for device in ("cpu", "cuda"))
    )


def clocked(make: Callable[[], nn.Module], batch: Tensor, steps: int) -> float:
    """How many times longer they take on a simulated GPU with modelled time than without it."""
    work = trainer(make, batch, steps, "cuda")
    times = [
        (in_simulation(work), in_simulation(work, "modelled")) for _ in range(PAIRS + 1)
    ]
    return statistics.median(after / before for before, after in times[1:])


def mlp() -> nn.Module:
    """A perceptron with one hidden layer: 784-256-10."""
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet() -> nn.Module:
    """LeNet for images of shape (1, 28, 28)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Sigmoid(), nn.Linear(120, 84), nn.Sigmoid()),
        nn.Linear(84, 10),
    )


def loading() -> tuple[float, float]:
    """Milliseconds of `import cudasim` after torch, and of `enable`, in fresh processes.

    The package is compiled, as an installed one is: the first process sees to it.
    """
    program = (
        "import time, torch; a = time.perf_counter(); import cudasim; b = time.perf_counter();"
        "cudasim.enable(force=True); c = time.perf_counter(); print(b - a, c - b)"
    )
    package = Path(cudasim.__file__).parents[1]
    compiling = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": str(package),
    }
    command = [sys.executable, "-c", program]
    runs = [
        subprocess.run(
            command, capture_output=True, text=True, check=True, env=compiling
        )
        for _ in range(6)
    ]
    last = [
        run.stdout.splitlines()[-1].split() for run in runs[1:]
    ]  # before it, enable's own line
    times = [[float(word) * 1e3 for word in line] for line in last]
    return tuple(statistics.median(column) for column in zip(*times, strict=True))


def renewing(tests: int = 100) -> float:
    """Milliseconds in which the plugin of pytest makes two GPUs fresh for the next test."""

    def work() -> None:
        for _ in range(tests):
            torch.ones(1000, device="cuda:1")
            Gpus().renew()

    return statistics.median(in_simulation(work) / tests * 1e3 for _ in range(PAIRS))


def measure() -> list[dict]:
    """All figures, as rows of what, value, unit, aim."""
    torch.set_num_threads(1)
    imported, enabled = loading()
    with_mlp = training(mlp, torch.rand(256, 784), 200)
    with_lenet = training(lenet, torch.rand(64, 1, 28, 28), 20)
    with_clock = clocked(mlp, torch.rand(256, 784), 200)
    floor = "times the empty mode"
    multiples = [
        (f"added to {name} on a GPU", added(operation, "cuda"), floor, aim)
        for (name, operation), aim in zip(
            OPERATIONS.items(), ("1.4", "1.15", "1.3"), strict=True
        )
    ]
    on_cpu = added(OPERATIONS["a 2 x 3 addition"], "cpu")
    multiples += [
        ("added to an operation of CPU tensors", on_cpu, floor, "1.15"),
        # Few examples, as arithmetic would drown the difference.
        (
            "added to the MLP, batch 8",
            training_added(mlp, torch.rand(8, 784), 200),
            floor,
            "1.4",
        ),
        (
            "added to LeNet, batch 2",
            training_added(lenet, torch.rand(2, 1, 28, 28), 100),
            floor,
            "1.4",
        ),
    ]
    figures = [
        *multiples,
        ("added to a 2 x 3 addition on a GPU", addition("cuda"), "us", "under 5 us"),
        ("added to a 2 x 3 addition on the CPU", addition("cpu"), "us", "under 2 us"),
        (
            "MLP 784-256-10, batch 256, 200 steps, to plain CPU",
            with_mlp,
            "times",
            "1.25",
        ),
        ("LeNet, batch 64, 20 steps, to plain CPU", with_lenet, "times", "1.1"),
        ("the same MLP with modelled time, to without", with_clock, "times", "1.15"),
        ("import cudasim, after torch", imported, "ms", "10 ms with enable"),
        ("cudasim.enable()", enabled, "ms", "10 ms with import"),
        ("two fresh GPUs for a test", renewing(), "ms", "at most 5 ms"),
    ]
    return [
        {"what": f"cudasim: {what}", "value": round(value, 2), "unit": unit, "aim": aim}
        for what, value, unit, aim in figures
    ]
