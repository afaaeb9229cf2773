"""What a program reads of the time while a virtual clock runs, and what else of it costs time.
Only its own code, and files of others that are LISTED, read modelled time: the event loops and
test runners of Python's library and of installed packages could not work without the machine's."""

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

# Of Python's library and of installed packages, the files that measure time for the program.
LISTED = (
    "/cudasim/calibration/stopwatch.py",
    "/timeit.py",
    "/torch/utils/benchmark/utils/timer.py",
    "/IPython/core/magics/execution.py",
    "/IPython/utils/timing.py",
    "/d2l/torch.py",
)
CALLERS = (
    "/threading.py",
    "/concurrent/futures/thread.py",
)  # they call what they are given
LOOPS = ("<timeit-src>", "<magic-timeit>")  # where timeit and IPython run a statement
LONGEST = 2**63 / SECOND  # seconds that Python can sleep

_OURS = Path(__file__).resolve().parents[1]
_INSTALLED = {"site-packages", "dist-packages"}


def patch_readings(patches: Patches) -> None:
    if session.clock is None:
        return
    for owner, name, made in paying_functions(session.clock):
        patches.replace(owner, name, made)
    for name, begin in (("perf_counter", 0), ("monotonic", 0), ("time", EPOCH)):
        for called, unit in ((name, SECOND), (f"{name}_ns", 1)):
            patches.replace(
                time, called, make_reading(getattr(time, called), unit, begin)
            )
    patches.wrap(time, "sleep", sleep)
    if resource is not None:
        patches.wrap(resource, "getrusage", getrusage)
    before, now = timeit.default_timer, time.perf_counter
    patches.replace(timeit, "default_timer", now)
    for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
        own = function.__defaults__
        patches.finally_do(setattr, function, "__defaults__", own)
        function.__defaults__ = tuple(now if each is before else each for each in own)


def make_reading(original: Callable, unit: int, begin: int) -> Callable:
    """A clock of the module `time` in `unit`; where it is modelled it begins at `begin`, in ns."""

    @wraps(
        original
    )  # so that programs can send it to other processes, as they can Python's
    def read() -> Any:
        frame = sys._getframe(1)
        if session.clock is None or not measures(frame.f_code.co_filename):
            return original()
        when = begin + session.clock.read()
        if frame.f_code.co_filename.endswith(
            LISTED
        ):  # torch's timer is called by a loop
            frame = frame.f_back or frame
        if frame.f_code.co_filename in LOOPS:
            turns = frame.f_locals[
                "_it"
            ].__length_hint__()  # none are left at the second reading
            session.clock.spend(turns * session.clock.loop, "loop")
        return when if unit == 1 else when / unit

    return read


def sleep(original: Callable, secs: Any, /) -> None:
    """`time.sleep`: on a virtual clock the time passes at once, and other threads get a turn."""
    own = session.clock is not None and sleeps(sys._getframe(2).f_code.co_filename)
    if own and isinstance(secs, Real) and 0 <= secs < LONGEST:
        session.clock.sleep(secs)
        secs = 0
    original(secs)  # refuses what makes no sense, in Python's words


def getrusage(original: Callable, who: int) -> Any:
    """`resource.getrusage`, from which IPython takes the time of the CPU: modelled, all `user`."""
    if session.clock is None or not measures(sys._getframe(2).f_code.co_filename):
        return original(who)
    return resource.struct_rusage(
        (session.clock.read() / SECOND, 0.0, *original(who)[2:])
    )


@cache
def sleeps(filename: str) -> bool:
    """Whether modelled time passes where that file sleeps: also where it calls a given function."""
    return measures(filename) or Path(filename).as_posix().endswith(CALLERS)


@cache
def measures(filename: str) -> bool:
    """Whether code of that file reads modelled time: the program's own, and what is LISTED."""
    path = Path(filename)
    if path.as_posix().endswith(LISTED):
        return True
    if (
        filename.startswith("<frozen")
        or _OURS in path.parents
        or _INSTALLED & {*path.parts}
    ):
        return False
    library = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    library |= {each.resolve() for each in library}
    return library.isdisjoint(path.parents)
