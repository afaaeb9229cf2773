"""Count the values that some work reads, find its waits, and count its calls to PyTorch.

Only calls from Python are counted. Functions that C++ or compiled code calls internally
are not counted, and neither are calls in other threads.
"""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cudasim.lab import devices
from cudasim.tracebacks import is_program

# Functions that bring the numbers of a tensor to Python.
READS = {
    *("item", "tolist", "numpy", "cpu", "is_nonzero", "equal", "allclose"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__"),
    *("__array__", "__contains__", "__format__", "__repr__"),
}
# Functions whose results have a shape that depends on the values, so Python has to wait.
SHAPES = {
    *("nonzero", "argwhere", "masked_select", "bincount"),
    *("unique", "unique_consecutive", "repeat_interleave"),
}
SYNCHRONIZES = "synchronizing CUDA operation"
ACCESSES = ("__get__", "__set__", "__delete__")  # of attributes


class Watch(TorchFunctionMode):
    """Call `note(name, args, kwargs)` before each function of PyTorch that Python calls."""

    def __init__(self, note: Callable[[str, tuple, dict], None]) -> None:
        super().__init__()
        self.note = note

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.note(getattr(function, "__name__", ""), args, kwargs)
        return function(*args, **kwargs)


def calls(work: Callable[[], Any]) -> Counter[str]:
    """Return how often `work()` calls each PyTorch function, by name: {'matmul': 2}.

    A Python operator counts under the name of its function, so `X + 1` counts as 'add'.
    The calls that a function makes internally are not counted: `cross_entropy` is one
    call.
    """
    names: Counter[str] = Counter()

    def note(name: str, args: tuple, kwargs: dict) -> None:
        if name not in ACCESSES:
            names[name] += 1

    with Watch(note):
        work()
    return names


def reads(work: Callable[[], Any]) -> int:
    """Return how often `work()` reads numbers of a tensor into Python.

    `item`, `tolist`, `print`, `if`, `float`, `cpu`, `to('cpu')` and `numpy` count once
    each, on any device. This includes the CPU, where reading costs next to nothing. Reads
    in C++ do not count, for example those of `torch.save` or of the size of a mask.
    """
    count = 0

    def note(name: str, args: tuple, kwargs: dict) -> None:
        nonlocal count
        count += _is_read(name, args, kwargs)

    with Watch(note):
        work()
    return count


def _is_read(name: str, args: tuple, kwargs: dict) -> bool:
    if name == "to":
        return any(_is_cpu(value) for value in (*args[1:], *kwargs.values()))
    return name in READS


def _is_cpu(value: object) -> bool:
    return value == "cpu" or (isinstance(value, torch.device) and value.type == "cpu")


class _Wait(Exception):
    """Ends some work at the call that would wait."""


def first_wait(work: Callable[[], Any]) -> str | None:
    """Return the line of the program at which `work()` first waits for a GPU, or None.

    `work` stops at that line. With CUDA, real or simulated, PyTorch reports the wait
    (`torch.cuda.set_sync_debug_mode`). Its report leaves out `synchronize`, waits for
    memory from the driver, waits for room in the queue of launches, and copies from
    pinned memory.

    For other devices PyTorch has no such report, and the CPU never waits. There, the
    result is the first line that needs a value, or a shape that depends on values, and
    would therefore wait on CUDA. Copies from and to a device are left out.
    """
    hunt = _hunt_with_cuda if devices.accelerator() == "cuda" else _hunt_by_name
    try:
        hunt(work)
    except _Wait as wait:
        error = wait.__cause__ or wait
        steps = traceback.extract_tb(error.__traceback__)
        lines = [step.line for step in steps if is_program(step.filename)]
        return lines[-1] if lines else ""
    return None


def _hunt_with_cuda(work: Callable[[], Any]) -> None:
    before = torch.cuda.get_sync_debug_mode()
    _set_sync_debug_mode("error")
    try:
        work()
    except RuntimeError as error:
        if SYNCHRONIZES not in str(error):
            raise
        raise _Wait from error
    finally:
        _set_sync_debug_mode(before)


def _set_sync_debug_mode(mode: int | str) -> None:
    with warnings.catch_warnings(
        action="ignore"
    ):  # PyTorch: it does not see every wait
        torch.cuda.set_sync_debug_mode(mode)


def _hunt_by_name(work: Callable[[], Any]) -> None:
    def note(name: str, args: tuple, kwargs: dict) -> None:
        if _is_read(name, args, kwargs) or _shape_depends_on_values(name, args):
            raise _Wait

    with Watch(note):
        work()


def _shape_depends_on_values(name: str, args: tuple) -> bool:
    if name == "where":
        return len(args) == 1
    if name == "__getitem__":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(_is_mask(part) for part in index)
    return name in SHAPES


def _is_mask(part: object) -> bool:
    return isinstance(part, torch.Tensor) and part.dtype == torch.bool and part.ndim > 0
