"""Measure how long some work takes until the devices have finished it.

A GPU works while Python continues, so a clock that is read when a call returns shows how
long the launch took, not the work. These functions wait for all devices before they start
the clock and before they stop it. They begin with a run that does not count, because a
first call loads libraries and takes memory from the driver.

If times are modelled, this file reads the modelled clock (`cudasim.patches.readings`).
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from cudasim.lab.devices import wait_for


def seconds(work: Callable[..., Any], *args: Any, runs: int = 5) -> float:
    """Return the median time in seconds of `work(*args)`, until all devices are done.

    `work` runs once as a warm-up, then `runs` times. Raises ValueError if `runs` is less
    than 1.
    """
    if runs < 1:
        raise ValueError(f"seconds() needs one run at least, not {runs}")
    _clock(work, args)
    return median(_clock(work, args)[1] for _ in range(runs))


def launched_and_done(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds until `work()` returns, and the seconds until all devices are done.

    `work` runs twice, the first time as a warm-up.
    """
    _clock(work, ())
    return _clock(work, ())


def _clock(work: Callable[..., Any], args: tuple) -> tuple[float, float]:
    wait_for()  # for work that was launched before
    start = time.perf_counter()
    result = work(*args)
    launched = time.perf_counter() - start
    wait_for(result)
    return launched, time.perf_counter() - start
