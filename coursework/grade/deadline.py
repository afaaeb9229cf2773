"""A limit on the time that the judge itself spends on what a student's process said.

A hidden test goes through values that it was given, and an answer may be shaped so that this takes
long. The limit is on processor time of the thread, so that a busy machine changes no grade; time
in which the judge waits for a session, which has limits of its own, is left out.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK = 0.1  # s between looks


class TooLong(Exception):
    """The thread has taken more processor time than it may."""


@contextmanager
def deadline(seconds: float) -> Iterator[Callable]:
    """Raise TooLong in this thread once the block has taken so many seconds of processor time.

    Gives a context manager: what happens within it is not counted. A single call of a function
    in C is interrupted only when it returns.
    """
    thread, paused, over = threading.get_ident(), threading.Event(), threading.Event()
    clock = time.pthread_getcpuclockid(thread)
    used = 0.0  # while it was paused

    def watch() -> None:
        begun = time.clock_gettime(clock)
        while not over.wait(TICK):
            if (
                not paused.is_set()
                and time.clock_gettime(clock) - begun - used > seconds
            ):
                # Documented for this use: https://docs.python.org/3/c-api/threads.html
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(TooLong)
                )
                return

    @contextmanager
    def pause() -> Iterator[None]:
        nonlocal used
        paused.set()
        begun = time.clock_gettime(clock)
        try:
            yield
        finally:
            used += time.clock_gettime(clock) - begun
            paused.clear()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield pause
    finally:
        over.set()
        watcher.join()
