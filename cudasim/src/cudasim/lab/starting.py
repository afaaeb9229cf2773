"""Start a notebook with `lab.start()`, which gives it GPUs in one line.

By default nothing is simulated if a framework sees an accelerator, or if CUDA_VISIBLE_DEVICES
is set, because the user has then chosen which GPUs the program may see.
"""

import os
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from cudasim import config, frameworks
from cudasim.installed import ADVICE, OLDEST, minor_version
from cudasim.lab import devices

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = "2.9"  # without a simulation
IF_NONE = "if none"
# What each framework is called, and what is set before it is imported.
NAMES = {
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "mxnet": "MXNet",
}
NOT_SIMULATED = "mxnet"
# TensorFlow prints notes at every start, and rounds otherwise with oneDNN.
TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
NO_GPU = "No GPU: the CPU alone."
NUMBERS = {1: "One", 2: "Two", 3: "Three", 4: "Four"}


class NotReady(RuntimeError):
    """Raised if a notebook cannot run here. It is shown as one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Not ready: {self}"]


def start(
    simulate: bool | str = IF_NONE,
    gpus: int = 2,
    card: str = "T4",
    framework: str = "torch",
) -> None:
    """Simulate GPUs on a machine without any, and print one line about what it has.

    With `simulate="if none"`, nothing is simulated if the framework sees an accelerator
    or if CUDA_VISIBLE_DEVICES is set. With True, GPUs are always simulated, and with False
    they never are. For PyTorch, their times are modelled. `framework` is 'torch', 'jax',
    'tensorflow' or 'mxnet'; GPUs of 'mxnet' cannot be simulated. A second call has no
    effect.

    Raises ValueError for an argument that makes no sense. Raises NotReady if Python or
    the framework is missing or too old, or if a GPU or another simulation is in use. If
    GPUs cannot be simulated and you have not asked for them with True, the line gives the
    reason, and the notebook uses only the CPU.
    """
    if simulate not in (True, False, IF_NONE):
        raise ValueError(f"simulate={simulate!r}: take True, False or '{IF_NONE}'")
    if framework not in NAMES:
        raise ValueError(f"framework={framework!r}: take one of {', '.join(NAMES)}")
    _check_versions(framework)
    if framework == "torch":
        print(_start_torch(simulate, gpus, card))
    else:
        print(_start_other(framework, simulate, gpus))


def _check_versions(framework: str) -> None:
    found = sys.version.split()[0]
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise NotReady(f"Python {found} is too old, take {oldest} or later")
    if not _is_whole():
        older = "an older cudasim is loaded: 'pip install --upgrade cudasim'"
        raise NotReady(f"{older}, and restart the kernel")
    if not find_spec(framework):
        install = ADVICE if framework == "torch" else f"'pip install {framework}'"
        raise NotReady(f"{NAMES[framework]} is not installed: {install}")


def _is_whole() -> bool:
    """Return whether the package in this process has the names of this version."""
    return {"enable", "timeline"} <= set(dir(sys.modules["cudasim"]))


# PyTorch


def _start_torch(simulate: bool | str, gpus: int, card: str) -> str:
    """Simulate GPUs of PyTorch if they are wanted, and return the line to print."""
    _require_torch(OLDEST if simulate is True else OLDEST_TORCH)
    running = devices.session()
    if running is not None:
        if simulate is True:
            _require_same(running, gpus, card)
        return _torch_line()

    is_needed = simulate is True or devices.accelerator() == "cpu"
    if _may_simulate(simulate) and is_needed:
        try:
            _require_torch(OLDEST)
        except NotReady as reason:
            return f"No simulated GPUs: {reason}. The CPU alone."
        _begin(gpus, card)
    return _torch_line()


def _may_simulate(simulate: bool | str) -> bool:
    """Return whether GPUs may be simulated. CUDA_VISIBLE_DEVICES counts as a choice too."""
    if simulate == IF_NONE:
        return config.VISIBLE not in os.environ
    return bool(simulate)


def _require_torch(oldest: str) -> None:
    here = version("torch")
    if minor_version(here) < minor_version(oldest):
        raise NotReady(f"torch {here} is too old: take {oldest} or later, and restart")


def _require_same(running: Any, gpus: int, card: str) -> None:
    """Raise NotReady if the GPUs that are simulated already are not the wanted ones."""
    number, name = running.machine.number, running.machine.card.name
    if number != gpus or name != card:
        here = f"{number} GPUs ({name}) are simulated already"
        raise NotReady(f"{here}: restart the kernel, and run this cell first")


def _begin(gpus: int, card: str) -> None:
    from cudasim import simulation

    wanted = config.parse(gpus, card, force=True, clock="modelled")
    try:
        simulation.begin(wanted)
    except RuntimeError as reason:
        message = f"{reason}. Restart the kernel, and run this cell first"
        raise NotReady(message) from None


def _torch_line() -> str:
    """Return one line about the GPUs that PyTorch sees."""
    number = devices.gpu_count()
    running = devices.session()
    if number == 0:
        return NO_GPU
    if running is None:
        names = dict.fromkeys(devices.card(index) for index in range(number))
        return f"{number} {_gpus(number)}: {', '.join(names)}"
    times = "modelled" if devices.is_modelled() else "those of this CPU"
    card = running.machine.card.name
    what = f"{_number(number)} simulated {card} {_gpus(number)}"
    return f"{what}; values are real, times are {times}."


# Other frameworks


def _start_other(framework: str, simulate: bool | str, gpus: int) -> str:
    """Simulate GPUs of another framework if they are wanted, and return the line to print."""
    if framework == "tensorflow":
        for name, value in TENSORFLOW.items():
            os.environ.setdefault(name, value)
    if framework == NOT_SIMULATED:
        if simulate is True:
            raise NotReady(f"GPUs of {NAMES[framework]} cannot be simulated")
        return _other_line(framework)
    if not _may_simulate(simulate):
        return _other_line(framework)

    if simulate is True:
        os.environ[config.VISIBLE] = "-1"  # else real ones would be taken
    try:
        _begin_other(framework, gpus)
    except (ImportError, RuntimeError) as reason:
        if simulate is True:
            raise NotReady(str(reason)) from None
        return f"No simulated GPUs: {reason}. The CPU alone."
    return _other_line(framework)


def _begin_other(framework: str, gpus: int) -> None:
    module = import_module(f"cudasim.{framework}")
    frameworks.begin(NAMES[framework], module.TRIED, gpus, module.simulate)


def _other_line(framework: str) -> str:
    """Return one line about the GPUs that a framework sees."""
    simulated = frameworks.simulated_gpus(NAMES[framework])
    if simulated:
        what = f"{_number(simulated)} simulated {_gpus(simulated)}"
        return f"{what}; values are real, times are those of this CPU."
    number = _count(framework, import_module(framework))
    return f"{number} {_gpus(number)}" if number else NO_GPU


def _count(framework: str, module: ModuleType) -> int:
    """Return the number of GPUs that a framework sees."""
    if framework == "jax":
        return len(module.devices()) if module.default_backend() == "gpu" else 0
    if framework == "tensorflow":
        return len(module.config.list_physical_devices("GPU"))
    return import_module("mxnet.npx").num_gpus()


def _number(number: int) -> str:
    return NUMBERS.get(number, str(number))


def _gpus(number: int) -> str:
    return "GPU" if number == 1 else "GPUs"
