"""What simulated GPUs of other frameworks have in common. They show names, placement and errors."""

import importlib
import re
from types import ModuleType

from cudasim import config


def load(name: str, tried: tuple[str, ...]) -> ModuleType:
    """The framework. Raises RuntimeError if it is missing, or older or newer than what was tried.

    `tried` is the oldest version, the one to advise, and the newest.
    """
    try:
        framework = importlib.import_module(name)
    except ModuleNotFoundError:
        raise RuntimeError(f"no {name} here: 'pip install {name}=={tried[1]}'") from None
    oldest, found, newest = tried[0], framework.__version__, tried[-1]
    if not _numbers(oldest) <= _numbers(found) <= _numbers(newest):
        raise RuntimeError(
            f"cudasim.{name} was tried with {name} {oldest} to {newest} alone, this is {found}: "
            f"'pip install {name}=={tried[1]}', and restart"
        )
    return framework


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def number(gpus: int | None, simulated: int, name: str) -> int:
    """How many GPUs to simulate; 0 if they are simulated already.

    Raises ValueError for a number that makes no sense, RuntimeError for another than before.
    """
    wanted = config.parse(gpus).gpus
    if simulated not in (0, wanted):
        raise RuntimeError(
            f"{simulated} GPUs are simulated in {name} already; for {wanted} start a new process"
        )
    return wanted - simulated


def say(wanted: int, name: str, real: int) -> None:
    """Print what `enable` did on a machine with so many real GPUs, unless CUDASIM_QUIET is set."""
    done = f"{wanted} simulated GPU{'s'[: wanted > 1]} in {name}, computed on the CPU"
    if real:
        done = f"{real} real GPU{'s'[: real > 1]} in {name}, nothing is simulated"
        done += " (CUDA_VISIBLE_DEVICES=-1 hides what is real)"
    if not config.quiet():
        print(f"cudasim: {done}")
