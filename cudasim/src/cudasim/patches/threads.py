"""Threads: dispatch modes are per thread, so each thread of the program enters one of its own.

On a virtual clock each has a host time of its own, too. It begins at that of the thread that
started it, or submitted its work to a pool, and who joins it or takes its result has come to the
later of both times. To wait takes no modelled time else.
"""

import _thread
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.thread import _WorkItem
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cudasim.patching import Patches
from cudasim.session import session

BEGAN, ENDED = "_cudasim_began", "_cudasim_ended"  # host times, on a thread, an item, a future


def patch_threads(patches: Patches) -> None:
    """Make threads, and pools of threads that are older than the simulation, see the GPUs.

    `Thread.run` is not enough: many subclasses have their own.
    """
    for owner, name in ((threading.Thread, "_bootstrap_inner"), (_WorkItem, "run")):
        patches.replace(owner, name, make_run(getattr(owner, name)))
    for name in ("start_new_thread", "start_new"):  # two names of one function
        patches.replace(_thread, name, make_start(getattr(_thread, name)))
    if session.clock is None:
        return
    for owner, name in ((threading.Thread, "start"), (_WorkItem, "__init__")):
        patches.replace(owner, name, make_begin(getattr(owner, name)))
    patches.replace(threading.Thread, "join", make_join(threading.Thread.join))
    for name in ("set_result", "set_exception"):
        patches.replace(Future, name, make_end(getattr(Future, name)))
    for name in ("result", "exception"):
        patches.replace(Future, name, make_take(getattr(Future, name)))


def make_run(original: Any) -> Any:
    """Run a thread, or an item of a pool, in the mode of the simulation."""

    def run(self: Any, *args: Any) -> None:
        clock = session.clock
        with _simulated(getattr(self, BEGAN, 0)):
            try:
                return original(self, *args)
            finally:
                if clock is not None:
                    setattr(self, ENDED, clock.now)

    return run


@contextmanager
def _simulated(began: int) -> Iterator[None]:
    """In the mode of the simulation, and not before the host time `began`."""
    mode = type(session.mode)
    entered = any(isinstance(each, mode) for each in _get_current_dispatch_mode_stack())
    if session.clock is not None:
        session.clock.reach(began)
    with nullcontext() if session.mode is None or entered else mode():
        yield


def make_start(original: Any) -> Any:
    """`_thread.start_new_thread`, which threads of `threading` do not come through."""

    @wraps(original)
    def start_new_thread(function: Any, *args: Any) -> int:
        if not callable(function):
            return original(function, *args)  # refuses it in Python's words
        began = 0 if session.clock is None else session.clock.now

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with _simulated(began):
                return function(*args, **kwargs)

        return original(run, *args)

    return start_new_thread


def make_begin(original: Any) -> Any:
    """What starts a thread, or makes an item of a pool: it notes the starter's time."""

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        if session.clock is not None:
            setattr(self, BEGAN, session.clock.now)
        original(self, *args, **kwargs)

    return begin


def make_end(original: Any) -> Any:
    """What gives a future its result: it notes the time of who computed it."""

    def end(self: Future, value: Any) -> None:
        if session.clock is not None:
            setattr(self, ENDED, session.clock.now)
        original(self, value)

    return end


def make_take(original: Any) -> Any:
    """`Future.result` and `Future.exception`: who takes it comes after who computed it."""

    def take(self: Future, timeout: float | None = None) -> Any:
        try:
            return original(self, timeout)
        finally:
            _come_after(self)

    return take


def make_join(original: Any) -> Any:
    """`Thread.join`."""

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        original(self, timeout)
        _come_after(self)

    return join


def _come_after(done: Any) -> None:
    """Bring this thread to the time at which another was `done`, if it is."""
    if session.clock is not None:
        session.clock.reach(getattr(done, ENDED, 0))


def _restart() -> None:
    """In a process that was forked: its clock begins at 0, with idle cards."""
    if session.clock is not None:
        session.clock.restart()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_restart)
