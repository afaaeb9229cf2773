"""What simulated GPUs of other frameworks have in common. They show names, placement and errors."""

import importlib
import re
from collections.abc import Callable, Sequence

from cudasim import config
from cudasim.words import WORDS

USED = "{} has used devices already: restart, and enable GPUs first"

_simulated: dict[str, int] = {}  # framework -> GPUs


def enable(
    name: str, tried: Sequence[str], gpus: int | None, simulate: Callable
) -> None:
    """Let the framework of that `name` see `gpus` GPUs, and say so. `tried` is the oldest of its
    versions that is taken, the one to advise, and the newest. `simulate(module, gpus)` returns how
    many real GPUs are there, and does nothing if any are."""
    wanted, had = config.parse(gpus).gpus, _simulated.get(name, 0)
    if had == wanted:
        return
    if had:
        raise RuntimeError(
            WORDS["simulation"]["other number"].format(had, name, wanted)
        )
    module, oldest, newest = name.lower(), tried[0], tried[-1]
    install = f"'pip install {module}=={tried[1]}'"
    try:
        framework = importlib.import_module(module)
    except ModuleNotFoundError:
        raise RuntimeError(f"no {module} here: {install}") from None
    found = framework.__version__
    if not numbers(oldest) <= numbers(found) <= numbers(newest):
        fault = f"was tried with {module} {oldest} to {newest} alone, this is {found}"
        raise RuntimeError(f"cudasim.{module} {fault}: {install}, and restart")
    done = f"{wanted} simulated GPU{'s'[: wanted > 1]} in {name}, computed on the CPU"
    if real := simulate(framework, wanted):
        done = f"{real} real GPU{'s'[: real > 1]} in {name}, nothing is simulated"
        done += " (CUDA_VISIBLE_DEVICES=-1 hides what is real)"
    else:
        _simulated[name] = wanted
    if not config.quiet():
        print(f"cudasim: {done}")


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
