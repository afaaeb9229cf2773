"""What simulated GPUs of other frameworks have in common.

They show names, placement and errors.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from cudasim import config
from cudasim.words import WORDS

USED = "{} has used devices already: restart, and enable GPUs first"

_simulated: dict[str, int] = {}  # the number of GPUs in each framework


def enable(
    name: str,
    tried: Sequence[str],
    gpus: int | None,
    simulate: Callable[[Any, int], int],
) -> None:
    """Let the framework of that `name` see `gpus` GPUs, and say so.

    `tried` are versions: the oldest that is accepted, the one to advise, and the newest.
    `simulate(module, gpus)` returns how many real GPUs are there, and does nothing if any
    are.
    """
    is_quiet = config.is_quiet()
    line = begin(name, tried, gpus, simulate)
    if line and not is_quiet:
        print(line)


def begin(
    name: str,
    tried: Sequence[str],
    gpus: int | None,
    simulate: Callable[[Any, int], int],
) -> str | None:
    """Do what `enable` does, and return its line; None if the GPUs are simulated already."""
    number = config.parse(gpus).gpus
    before = _simulated.get(name)
    if before == number:
        return None
    if before is not None:
        message = WORDS["simulation"]["other number"]
        raise RuntimeError(message.format(before, name, number))

    real = simulate(_import(name, tried), number)
    if real:
        line = f"{real} real {_gpus(real)} in {name}, nothing is simulated"
        line += " (CUDA_VISIBLE_DEVICES=-1 hides what is real)"
    else:
        line = f"{number} simulated {_gpus(number)} in {name}, computed on the CPU"
        _simulated[name] = number
    return f"cudasim: {line}"


def simulated_gpus(name: str) -> int:
    """Return how many GPUs are simulated in the framework of that `name`, or 0."""
    return _simulated.get(name, 0)


def is_simulating() -> bool:
    """Return whether GPUs are simulated in any of these frameworks."""
    return any(_simulated.values())


def _import(name: str, tried: Sequence[str]) -> Any:
    """Import a framework. Raises RuntimeError if it is missing, or of another version."""
    module = name.lower()
    oldest, advised, newest = tried[0], tried[1], tried[-1]
    install = f"'pip install {module}=={advised}'"
    try:
        framework = importlib.import_module(module)
    except ModuleNotFoundError:
        raise RuntimeError(f"no {module} here: {install}") from None
    version = framework.__version__
    if not numbers(oldest) <= numbers(version) <= numbers(newest):
        fault = f"was tried with {module} {oldest} to {newest} alone, this is {version}"
        raise RuntimeError(f"cudasim.{module} {fault}: {install}, and restart")
    return framework


def _gpus(number: int) -> str:
    return "GPU" if number == 1 else "GPUs"


def numbers(version: str) -> list[int]:
    """Return the numbers in a version, by which versions compare."""
    return [int(number) for number in re.findall(r"\d+", version)]
