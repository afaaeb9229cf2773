"""Threads: each enters a dispatch mode of its own.

On a virtual clock a thread has a host time of its own, too. It begins at that of the
thread that started it, or submitted its work; a thread that joins it has come to the
later of both times.
"""

import _thread
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import _WorkItem
from contextlib import contextmanager, nullcontext
from typing import Any

from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private.dispatch import dispatch_modes

# Attributes of a thread, an item of work or a future: host times on the virtual clock.
BEGAN = "_cudasim_began"
ENDED = "_cudasim_ended"


def _is_timed() -> bool:
    return session.clock is not None


def _now() -> int:
    return 0 if session.clock is None else session.clock.now


# `Thread.run` is not enough: many subclasses have their own.
@replaces(threading.Thread, "_bootstrap_inner")
@replaces(_WorkItem, "run")
def run(original: Callable, self: Any, *args) -> None:
    clock = session.clock
    with _simulated(getattr(self, BEGAN, 0)):
        try:
            return original(self, *args)
        finally:
            if clock is not None:
                setattr(self, ENDED, clock.now)


@contextmanager
def _simulated(began: int) -> Iterator[None]:
    """Run the block in the mode of the simulation, not before the host time `began`."""
    if session.clock is not None:
        session.clock.reach(began)
    mode_class = type(session.mode)
    is_entered = any(isinstance(mode, mode_class) for mode in dispatch_modes())
    if session.mode is None or is_entered:
        mode = nullcontext()
    else:
        mode = mode_class()
    with mode:
        yield


@replaces(_thread, "start_new_thread", "start_new")  # two names of one function
def start_new_thread(original: Callable, function: Any, *args) -> int:
    """Start a thread of `_thread`; those of `threading` do not come through here."""
    if callable(function):  # else Python refuses it in its words
        function = _simulated(_now())(function)
    return original(function, *args)


@replaces(threading.Thread, "start", when=_is_timed)
@replaces(_WorkItem, "__init__", when=_is_timed)
def begin(original: Callable, self: Any, *args, **kwargs) -> None:
    setattr(self, BEGAN, _now())
    original(self, *args, **kwargs)


@replaces(Future, "set_result", "set_exception", when=_is_timed)
def end(original: Callable, self: Future, value: Any) -> None:
    setattr(self, ENDED, _now())
    original(self, value)


@replaces(Future, "result", "exception", when=_is_timed)
@replaces(threading.Thread, "join", when=_is_timed)
def come_after(original: Callable, self: Any, timeout: float | None = None) -> Any:
    try:
        return original(self, timeout)
    finally:
        if session.clock is not None:
            session.clock.reach(getattr(self, ENDED, 0))


def _restart_clock() -> None:
    if session.clock is not None:
        session.clock.restart()


if hasattr(os, "register_at_fork"):  # not on Windows; a fork's clock begins at 0
    os.register_at_fork(after_in_child=_restart_clock)
