"""A limit on the processor time of a block of code, such as a hidden test."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

TICK = 0.1  # s between looks at the time that a block has taken


class TooLong(Exception):
    """The thread has taken more processor time than it may."""


@contextmanager
def deadline(seconds: float) -> Iterator[Callable[[], AbstractContextManager]]:
    """Raise TooLong in this thread once the block has taken so many seconds of processor time.

    A hidden test goes through values that it was given, and an answer may be shaped so that
    this takes long. Processor time is counted, so that a busy machine changes no grade.

    Yields a function that makes a context manager: what happens within it is not counted,
    such as waiting for a session, which has limits of its own. A single call of a function
    in C is interrupted only when it returns.
    """
    thread = threading.get_ident()
    clock = time.pthread_getcpuclockid(thread)
    paused = threading.Event()
    over = threading.Event()
    not_counted = 0.0  # seconds in pauses

    def watch() -> None:
        start = time.clock_gettime(clock)
        while not over.wait(TICK):
            used = time.clock_gettime(clock) - start - not_counted
            if not paused.is_set() and used > seconds:
                raise_in(thread, TooLong)
                return

    @contextmanager
    def pause() -> Iterator[None]:
        nonlocal not_counted
        paused.set()
        start = time.clock_gettime(clock)
        try:
            yield
        finally:
            not_counted += time.clock_gettime(clock) - start
            paused.clear()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield pause
    finally:
        over.set()
        watcher.join()


def raise_in(thread: int, error: type[Exception]) -> None:
    """Raise an error in another thread.

    This use is documented: https://docs.python.org/3/c-api/threads.html.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error)
    )
