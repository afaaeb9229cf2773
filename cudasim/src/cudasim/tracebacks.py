"""Tracebacks without the simulator's lines: on a card there would be none of them."""

import os
from types import TracebackType

# Where the lines of a traceback are that the program did not write: in this package, and
# in Python's importer.
_OURS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<frozen importlib",
    "<frozen runpy",
)


def hide_our_lines(error: BaseException) -> None:
    """Take this package's lines out of the traceback of `error`.

    Those of its cause, and of the error that was being handled, lose them too.
    """
    errors = [error]
    seen = set()
    while errors:
        error = errors.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = without_our_lines(error.__traceback__)
        for other in (error.__cause__, error.__context__):
            if other is not None:
                errors.append(other)


def without_our_lines(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without this package's lines, as real GPUs would have it."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    if trace is not None:
        trace.tb_next = without_our_lines(trace.tb_next)
    return trace
