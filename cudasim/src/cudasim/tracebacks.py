"""Tracebacks without the simulator's lines, which a program on a real card would not have."""

import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from types import FrameType, TracebackType
from typing import NamedTuple

# How the file names begin that are left out: this package, and what runs modules in Python.
_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<frozen importlib",
    "<frozen runpy",
)
# Where PyTorch calls an operator, or the `__torch_function__` of an operand, in Python. On
# a card, C++ calls both.
_CALLED_BY_CPP = (
    os.path.join("torch", "_ops.py"),
    os.path.join("torch", "overrides.py"),
)
_INSTALLED = {"site-packages", "dist-packages"}


def hide_our_lines(error: BaseException, to_program: bool = False) -> None:
    """Take this package's lines out of the traceback of `error`.

    Do the same for its cause and for the error that was being handled, and so on. With
    `to_program`, what the simulation raises is traced to the last line of the program, and
    not on to the function of PyTorch that this line calls.
    """
    for current in _with_earlier(error):
        frames = _chain(current.__traceback__)
        kept = _without_our_lines(frames)
        if to_program and frames and frames[-1] not in kept:  # it is the simulation's
            kept = _without_torch_at_end(kept)
        current.__traceback__ = _link(kept)


def release_operands(error: BaseException) -> None:
    """Let go of the tensors that this package's frames in the traceback of `error` hold.

    On a card they would be frames of C++, which are gone when the program handles the
    error. The lines of the traceback stay, and so does what the program's own frames
    hold. A frame that still runs has to let go of its tensors itself.
    """
    for current in _with_earlier(error):
        frames = _chain(current.__traceback__)
        kept = _without_our_lines(frames)
        for trace in frames:
            if trace not in kept:
                with suppress(RuntimeError):  # it still runs
                    trace.tb_frame.clear()


def _with_earlier(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the error that was being handled, and so on."""
    waiting = [error]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [current.__cause__, current.__context__]


def _chain(trace: TracebackType | None) -> list[TracebackType]:
    chain = []
    while trace is not None:
        chain.append(trace)
        trace = trace.tb_next
    return chain


def _link(chain: list[TracebackType]) -> TracebackType | None:
    """Let each entry of a traceback lead to the next; return the first."""
    following = None
    for trace in reversed(chain):
        trace.tb_next = following
        following = trace
    return following


def _without_our_lines(chain: list[TracebackType]) -> list[TracebackType]:
    """Leave out this package's lines, and the calls of PyTorch that C++ makes on a card."""
    kept = []
    is_our_call = False
    for trace in chain:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OURS):
            is_our_call = True
        elif not (is_our_call and file.endswith(_CALLED_BY_CPP)):
            is_our_call = False
            kept.append(trace)
    return kept


def _without_torch_at_end(chain: list[TracebackType]) -> list[TracebackType]:
    """Leave out the lines of PyTorch after the last one of the program, if it has any."""
    for length in range(len(chain), 0, -1):
        if not chain[length - 1].tb_frame.f_code.co_filename.startswith(_torch()):
            return chain[:length]
    return chain


@cache
def _torch() -> str:
    """Return how the names of PyTorch's files begin."""
    return os.path.dirname(sys.modules["torch"].__file__) + os.sep


class Line(NamedTuple):
    """A line of the program that was running."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        """Show the line as a traceback does."""
        place = f'  File "{self.file}", line {self.number}, in {self.function}'
        source = linecache.getline(self.file, self.number).strip()
        return f"{place}\n    {source}" if source else place


def program_lines(frame: FrameType | None, most: int) -> tuple[Line, ...]:
    """Return the lines of the program that `frame` was called from, the last one first.

    The last one may belong to an installed package, if that is not PyTorch; those before
    it are the program's own. There are `most` lines at most.
    """
    lines: list[Line] = []
    while frame is not None and len(lines) < most:
        file = frame.f_code.co_filename
        if is_program(file) or not (lines or file.startswith((*_OURS, _torch()))):
            lines.append(Line(file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(lines)


@cache
def is_program(file: str) -> bool:
    """Return whether a file is neither this package's, nor Python's, nor installed."""
    if file.startswith((*_OURS, "<frozen")):
        return False
    if not _INSTALLED.isdisjoint(file.split(os.sep)):
        return False
    library = os.path.join(sysconfig.get_path("stdlib"), "")
    return not os.path.realpath(file).startswith((library, os.path.realpath(library)))
