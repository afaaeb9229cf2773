"""Scratch tensors: what C++ makes for itself while it carries out a call of the program.

C++ believes that every tensor is on the CPU. So a tensor that it makes within an operation,
or within backward, has no device yet. It adopts the device of the first GPU tensor that it
meets. A tensor that the program itself makes is on the CPU and stays there.

A tensor is scratch only while the call in which it was made is running. Calls are told apart
by the place in the program that they come from, as two calls cannot run at the same place at
the same time.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor

from cudasim.session import session
from cudasim.torch_private.operators import INTERPRETER, OpOverload, OpOverloadPacket
from cudasim.torch_private.tensors import run_engine

_PACKAGE = Path(__file__).resolve().parents[1]
_TORCH = Path(torch.__file__).parent

# Frames of these files answer a call and are not a place in the program. PyTorch's two
# files stand before each `__torch_dispatch__` of a mode of the program.
_ANSWERING = (
    str(_PACKAGE / "dispatch"),
    str(_PACKAGE / "patches"),
    str(_PACKAGE / "backends"),
    str(_PACKAGE / "modes.py"),
    str(_PACKAGE / "patching.py"),
    str(_PACKAGE / "torch_private"),
    str(_TORCH / "_compile.py"),
    str(_TORCH / "_dynamo" / "eval_frame.py"),
)
_OPERATOR_CALLS = (OpOverload.__call__.__code__, OpOverloadPacket.__call__.__code__)
_ENGINE = run_engine.__code__
# The code of graphs: what `torch.fx` writes, and what interprets it.
GRAPHS = ("<eval_with_key>", INTERPRETER)

# How many frames identify a call: one is not enough, as many calls share a helper function.
DEPTH = 3


class Scratch:
    """The tag of a scratch tensor, which remembers the call that it belongs to."""

    __slots__ = ("call_site",)
    gpu = None

    def __init__(self) -> None:
        # None for a tensor that stays scratch after the call.
        self.call_site: tuple[int, ...] | None = None
        if not session.thread.makes_lasting:
            self.call_site = _current_call_site()

    def is_running(self) -> bool:
        """Return whether the call in which the tensor was made is still running."""
        return self.call_site is None or self.call_site == _current_call_site()


def lasts(tensor: Tensor) -> bool:
    """Return whether a scratch tensor stays scratch after the call in which it was made."""
    return tensor.untyped_storage()._cudasim.call_site is None


def is_called_by_program(func: Callable) -> bool:
    """Return whether the program called `func` itself, as `torch.ops.aten.zeros`."""
    frame = _calling_frame()
    if frame.f_code not in _OPERATOR_CALLS:
        return False
    return frame.f_locals["self"] in (func, func.overloadpacket)


def is_called_by_graph() -> bool:
    """Return whether the code of a graph makes the call: in eager mode C++ made it."""
    frame = _calling_frame()
    if frame.f_code in _OPERATOR_CALLS:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(GRAPHS)


def is_called_by_engine() -> bool:
    """Return whether backward makes the call, rather than a hook or function of Python."""
    return _calling_frame().f_code is _ENGINE


def outside(frame: FrameType, folders: tuple[str, ...]) -> FrameType:
    """Return the innermost frame, from `frame` outwards, whose file is in no such folder."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folders):
        frame = frame.f_back
    return frame


def _calling_frame() -> FrameType:
    """Return the innermost frame of the program.

    A dispatch mode of the program that only passes on what C++ calls does not count.
    """
    frame = outside(sys._getframe(1), _ANSWERING)
    while frame.f_code in _OPERATOR_CALLS:
        before = _frame_before_mode(frame)
        if before is None:
            break
        frame = outside(before, _ANSWERING)
    return frame


def _frame_before_mode(operator_frame: FrameType) -> FrameType | None:
    """Return the frame before the mode that passes on an operator; None if none does."""
    mode_frame = operator_frame.f_back
    if mode_frame is None or mode_frame.f_code.co_name != "__torch_dispatch__":
        return None
    operator = operator_frame.f_locals["self"]
    passes_on = any(value is operator for value in mode_frame.f_locals.values())
    return mode_frame.f_back if passes_on else None


def _current_call_site() -> tuple[int, ...]:
    """Return the innermost frames of the program and the instruction each has reached."""
    frame = _calling_frame()
    call_site = ()
    while frame is not None and len(call_site) < 2 * DEPTH:
        call_site += (id(frame), frame.f_lasti)
        frame = frame.f_back
    return call_site
