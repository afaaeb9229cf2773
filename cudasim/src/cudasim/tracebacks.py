"""Tracebacks without the simulator's lines, which a program on a real card would not have."""

import os
from types import TracebackType

# How the file names begin that are left out: this package, and what runs modules in Python.
_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<frozen importlib",
    "<frozen runpy",
)


def hide_our_lines(error: BaseException) -> None:
    """Take this package's lines out of the traceback of `error`.

    Do the same for its cause and for the error that was being handled, and so on.
    """
    waiting = [error]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = without_our_lines(current.__traceback__)
        waiting += [current.__cause__, current.__context__]


def without_our_lines(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without this package's lines, as real GPUs would have it."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS):
            break
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_our_lines(trace.tb_next)
    return trace
