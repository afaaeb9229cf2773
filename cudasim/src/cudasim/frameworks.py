"""What simulated GPUs of other frameworks have in common. They show names, placement and errors."""

import importlib
from collections.abc import Callable

from cudasim import config

USED = "{} has used devices already: restart, and enable GPUs first"

_simulated: dict[str, int] = {}  # framework -> GPUs


def enable(name: str, tried: str, gpus: int | None, simulate: Callable) -> None:
    """Let the framework of that `name`, tried in one version, see `gpus` GPUs, and say so.
    `simulate(module, gpus)` returns how many real GPUs are there, and does nothing if any are."""
    wanted, had = config.parse(gpus).gpus, _simulated.get(name, 0)
    if had == wanted:
        return
    if had:
        words = f"{had} GPUs are simulated in {name} already; for {wanted} start a new process"
        raise RuntimeError(words)
    module = name.lower()
    install = f"'pip install {module}=={tried}'"
    try:
        framework = importlib.import_module(module)
    except ModuleNotFoundError:
        raise RuntimeError(f"no {module} here: {install}") from None
    if framework.__version__ != tried:
        found = f"was tried with {module} {tried} alone, this is {framework.__version__}"
        raise RuntimeError(f"cudasim.{module} {found}: {install}, and restart")
    done = f"{wanted} simulated GPU{'s'[: wanted > 1]} in {name}, computed on the CPU"
    if real := simulate(framework, wanted):
        done = f"{real} real GPU{'s'[: real > 1]} in {name}, nothing is simulated"
        done += " (CUDA_VISIBLE_DEVICES=-1 hides what is real)"
    else:
        _simulated[name] = wanted
    if not config.quiet():
        print(f"cudasim: {done}")
