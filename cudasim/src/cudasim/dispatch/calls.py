"""Scratch: what C++ makes for itself while one call of the program runs.

C++ believes every tensor to be on the CPU. So what it makes within an operation, or within
backward, has no device yet, and adopts that of the first tensor on a GPU that it meets. What the
program itself makes is on the CPU and stays there.

A tensor is scratch as long as the call in which it was made runs. Calls are told apart by the place
in the program that they come from: two calls do not run at the same place at one time."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.autograd import graph

from cudasim.session import session

# What answers a call in the program's place, and is no place of the program: the last two stand
# before each `__torch_dispatch__` of a mode of its own.
_HERE, _TORCH = Path(__file__).resolve().parents[1], Path(torch.__file__).parent
_ANSWERING = (
    *(str(_HERE / name) for name in ("dispatch", "patches", "backends")),
    *(
        str(_TORCH / name)
        for name in ("_compile.py", os.path.join("_dynamo", "eval_frame.py"))
    ),
)
_OPERATORS = (OpOverload.__call__.__code__, OpOverloadPacket.__call__.__code__)
_ENGINE = graph._engine_run_backward.__code__
DEPTH = 3  # frames that tell a place: a function that others pass through is called from several


class Scratch:
    """The tag of a scratch tensor, which tells the call that it belongs to."""

    __slots__ = ("place",)
    gpu = None
    size = 0

    def __init__(self) -> None:
        self.place = None if session.thread.lasting else _place()

    def runs(self) -> bool:
        return self.place is None or self.place == _place()


def is_asked_for(func: Callable) -> bool:
    """Whether the program itself called the operator `func`, as `torch.ops.aten.zeros`."""
    frame, names = _caller(), (func, func.overloadpacket)
    return frame.f_code in _OPERATORS and frame.f_locals["self"] in names


def is_engine() -> bool:
    """Whether backward makes what is made now, not Python that it calls: a hook, a function."""
    return _caller().f_code is _ENGINE


def _caller() -> FrameType:
    """The innermost frame of the program. Its modes that hand on what C++ calls are none."""
    frame = outside(sys._getframe(1), _ANSWERING)
    while frame.f_code in _OPERATORS and (mode := _handing_on(frame)) is not None:
        frame = outside(mode, _ANSWERING)
    return frame


def outside(frame: FrameType, folders: tuple[str, ...]) -> FrameType:
    """The innermost frame, from that `frame` on, whose file is in none of the `folders`."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(folders):
        frame = frame.f_back
    return frame


def _handing_on(operator: FrameType) -> FrameType | None:
    """What stands before the mode that hands on the call of an `operator`; None if none does."""
    mode = operator.f_back
    if mode is None or mode.f_code.co_name != "__torch_dispatch__":
        return None
    asked = operator.f_locals["self"]
    return (
        mode.f_back if any(value is asked for value in mode.f_locals.values()) else None
    )


def _place() -> tuple[int, ...]:
    """Where the program is: its innermost frames, and the instruction that each has come to."""
    frame, place = _caller(), ()
    while frame is not None and len(place) < 2 * DEPTH:
        place += (id(frame), frame.f_lasti)
        frame = frame.f_back
    return place
