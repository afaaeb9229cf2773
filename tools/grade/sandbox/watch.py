"""What a session uses, seen from outside: processor time, memory, threads, files.

A request may take so many seconds of processor time, which are the same on a machine that is
busy, and may wait as long without working. Time in which it wants a processor and gets none is
not counted.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20
THREADS = 64
BACKSTOP = 30  # times its seconds: no request takes longer, whatever it does
SLOW = 5  # looks between two at what takes longer to see


def own_memory(pid: int) -> int:
    """Bytes of memory that a process could have for itself now: what RLIMIT_DATA counts."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmData:")[1].split()[0]) * 1024


class Watch:
    """The use of one process, whose number is `pid` here outside."""

    def __init__(self, pid: int, memory: int, files: Callable[[], bool] | None = None) -> None:
        """`memory` in MiB beyond what it has now; `files()` is True when there are too many."""
        self.pid, self.files = pid, files
        self.clock = ~pid << 3 | 2  # CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
        self.seconds = 0.0
        self.most = self._memory()[0] + memory * MIB
        self.looks = 0

    def begin(self, seconds: float) -> None:
        """A request begins, which may take so many seconds."""
        self.seconds = seconds
        self.used = self.waited = 0.0
        self.processor, self.wall = self._processor(), time.monotonic()
        self.end = self.wall + BACKSTOP * seconds + 60

    def look(self) -> str | None:
        """Why the session must end now: `time`, `memory`, `disk`, or None."""
        try:
            return self._look()
        except (OSError, IndexError, ValueError):
            return None  # it is gone; the pipe says so

    def _look(self) -> str | None:
        processor, wall = self._processor(), time.monotonic()
        self.used += processor - self.processor
        if self._sleeps():
            self.waited += max(0.0, wall - self.wall - (processor - self.processor))
        self.processor, self.wall = processor, wall
        if max(self.used, self.waited) > self.seconds or wall > self.end:
            return "time"
        memory, threads = self._memory()
        if memory > self.most or threads > THREADS:
            return "memory"
        self.looks += 1
        if self.files is not None and self.looks % SLOW == 0 and self.files():
            return "disk"
        return None

    def _processor(self) -> float:
        """Seconds of processor time, of all threads."""
        try:
            return time.clock_gettime(self.clock)
        except OSError:
            return self.processor if hasattr(self, "processor") else 0.0

    def _sleeps(self) -> bool:
        """True if no thread runs or wants to."""
        for task in os.listdir(f"/proc/{self.pid}/task")[: 2 * THREADS]:
            stat = Path(f"/proc/{self.pid}/task/{task}/stat").read_text()
            if stat.rpartition(")")[2].split()[0] not in "SIT":
                return False
        return True

    def _memory(self) -> tuple[int, int]:
        """(bytes of its own and shared without a file, threads)."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return 0, 0
        about = dict(line.split(":", 1) for line in lines if ":" in line)
        own = sum(int(about.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem"))
        return own * 1024, int(about["Threads"])
