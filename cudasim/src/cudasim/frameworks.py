"""What simulated GPUs of other frameworks have in common. They show names, placement and errors."""

import importlib
from types import ModuleType

from cudasim import config


def load(name: str, tried: str) -> ModuleType:
    """The framework. Raises RuntimeError if it is missing, or not the version that was tried."""
    try:
        framework = importlib.import_module(name)
    except ModuleNotFoundError:
        raise RuntimeError(f"no {name} here: 'pip install {name}=={tried}'") from None
    found = framework.__version__
    if found != tried:
        raise RuntimeError(
            f"cudasim.{name} was tried with {name} {tried} alone, this is {found}: "
            f"'pip install {name}=={tried}', and restart"
        )
    return framework


def number(gpus: int | None, simulated: int, name: str) -> int:
    """How many GPUs to simulate; 0 if they are already. Raises as `enable` does."""
    wanted = config.parse(gpus).gpus
    if simulated not in (0, wanted):
        raise RuntimeError(
            f"{simulated} GPUs are simulated in {name} already; for {wanted} start a new process"
        )
    return wanted - simulated


def say(wanted: int, name: str, real: int) -> None:
    """Print what `enable` did on a machine with so many real GPUs."""
    done = f"{wanted} simulated GPU{'s'[: wanted > 1]} in {name}, computed on the CPU"
    if real:
        done = f"{real} real GPU{'s'[: real > 1]} in {name}, nothing is simulated"
        done += " (CUDA_VISIBLE_DEVICES=-1 hides what is real)"
    if not config.quiet():
        print(f"cudasim: {done}")
