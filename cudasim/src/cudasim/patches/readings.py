"""What a program reads of the time while a virtual clock runs, and what else costs time.

Only the program's own code, and the files of others in TIMERS, read modelled time. The
event loops and test runners of Python's library and of installed packages could not work
without the machine's.
"""

import sys
import sysconfig
import time
import timeit
from collections.abc import Callable
from functools import cache, wraps
from numbers import Real
from pathlib import Path
from typing import Any

try:
    import resource
except ModuleNotFoundError:  # Windows; IPython then reads the clocks of `time`
    resource = None

from cudasim.clock.clock import EPOCH, SECOND
from cudasim.clock.watching import paying_functions
from cudasim.patching import Patches
from cudasim.session import session

# Files of Python's library and of packages that measure time for the program.
TIMERS = (
    "/cudasim/lab/timing.py",
    "/timeit.py",
    "/torch/utils/benchmark/utils/timer.py",
    "/IPython/core/magics/execution.py",
    "/IPython/utils/timing.py",
    "/d2l/torch.py",
)
# These call what the program gives them.
CALLERS = ("/threading.py", "/concurrent/futures/thread.py")
# Where timeit and IPython run a statement.
LOOPS = ("<timeit-src>", "<magic-timeit>")
LONGEST_SLEEP = 2**63 / SECOND  # seconds
# Python's clocks, with what they show as the virtual one begins, in nanoseconds.
CLOCKS = {"perf_counter": 0, "monotonic": 0, "time": EPOCH}

_CUDASIM = Path(__file__).resolve().parents[1]
_INSTALLED = {"site-packages", "dist-packages"}


def patch_readings(patches: Patches) -> None:
    if session.clock is None:
        return
    for owner, name, function in paying_functions(session.clock):
        patches.replace(owner, name, function)

    timer = timeit.default_timer
    for name, begin in CLOCKS.items():
        reading = make_reading(getattr(time, name), SECOND, begin)
        patches.replace(time, name, reading)
        name_ns = f"{name}_ns"
        patches.replace(time, name_ns, make_reading(getattr(time, name_ns), 1, begin))
    patches.wrap(time, "sleep", sleep)
    if resource is not None:
        patches.wrap(resource, "getrusage", getrusage)
    _patch_timeit(patches, timer, time.perf_counter)


def _patch_timeit(patches: Patches, before: Callable, now: Callable) -> None:
    """Let `timeit` use the timer `now`, which is the default of its functions, too."""
    patches.replace(timeit, "default_timer", now)
    for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
        own = function.__defaults__
        patches.finally_do(setattr, function, "__defaults__", own)
        function.__defaults__ = tuple(
            now if value is before else value for value in own
        )


def make_reading(original: Callable, unit: int, begin: int) -> Callable:
    """Return a clock of the module `time` that counts in `unit`.

    Where the time is modelled, it begins at `begin`, in nanoseconds.
    """

    # Wrapped, so that programs can send it to other processes, as they can Python's.
    @wraps(original)
    def read() -> Any:
        caller = sys._getframe(1)
        filename = caller.f_code.co_filename
        if session.clock is None or not measures(filename):
            return original()

        nanoseconds = begin + session.clock.read()
        if filename.endswith(TIMERS):  # a loop calls torch's timer
            caller = caller.f_back or caller
        if caller.f_code.co_filename in LOOPS:
            # What is left of the loop now has run at the next reading.
            turns = caller.f_locals["_it"].__length_hint__()
            session.clock.spend(turns * session.clock.loop, "loop")
        return nanoseconds if unit == 1 else nanoseconds / unit

    return read


def sleep(original: Callable, secs: Any, /) -> None:
    """Sleep on the virtual clock: the time passes at once, and other threads get a turn."""
    caller = sys._getframe(2).f_code.co_filename
    is_modelled = session.clock is not None and sleeps(caller)
    if is_modelled and isinstance(secs, Real) and 0 <= secs < LONGEST_SLEEP:
        session.clock.sleep(secs)
        secs = 0
    original(secs)  # refuses what makes no sense, in Python's words


def getrusage(original: Callable, who: int) -> Any:
    """Report modelled time as that of the CPU, all of it `user`: IPython reads it here."""
    caller = sys._getframe(2).f_code.co_filename
    if session.clock is None or not measures(caller):
        return original(who)
    seconds = session.clock.read() / SECOND
    return resource.struct_rusage((seconds, 0.0, *original(who)[2:]))


@cache
def sleeps(filename: str) -> bool:
    """Tell whether modelled time passes where that file sleeps.

    It does where the file calls a function that the program gave it, too.
    """
    return measures(filename) or Path(filename).as_posix().endswith(CALLERS)


@cache
def measures(filename: str) -> bool:
    """Tell whether code of that file reads modelled time."""
    path = Path(filename)
    if path.as_posix().endswith(TIMERS):
        return True
    if filename.startswith("<frozen") or _CUDASIM in path.parents:
        return False
    if not _INSTALLED.isdisjoint(path.parts):
        return False
    library = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    library |= {folder.resolve() for folder in library}
    return library.isdisjoint(path.parents)
