"""What a session uses, seen from outside: processor time, memory, threads, files.

A request may take so many seconds of processor time, which are the same on a machine that is
busy, and may wait as long without working. Time in which it wants a processor and gets none is
not counted.
"""

import contextlib
import os
import re
import stat
import time
from pathlib import Path

from tools.grade.sandbox.inside import DISK, THREADS

FILES = 4096
BACKSTOP = 30  # times its seconds: no request takes longer, whatever it does
SLOW = 5  # looks between two at what takes longer to see


def status(pid: int) -> dict[str, int]:
    """The numbers that the kernel says of a process, those of memory in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.findall(r"^(\w+):\s+(\d+)( kB)?$", text, re.M)
    return {name: int(number) << (10 if kib else 0) for name, number, kib in found}


class Watch:
    """The use of one process, whose number is `pid` here outside."""

    def __init__(self, pid: int, memory: int, folder: str) -> None:
        """`memory` in MiB beyond what it has now; `folder` is where its files are."""
        self.pid, self.folder = pid, folder
        self.clock = ~pid << 3 | 2  # CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
        self.most = self._memory()[0] + (memory << 20)
        self.processor = 0.0
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
        if self.looks % SLOW == 0 and too_many_files(self.folder, self.pid):
            return "disk"
        return None

    def _processor(self) -> float:
        """Seconds of processor time, of all threads."""
        try:
            return time.clock_gettime(self.clock)
        except OSError:
            return self.processor

    def _sleeps(self) -> bool:
        """True if no thread runs or wants to."""
        for task in os.listdir(f"/proc/{self.pid}/task")[: 2 * THREADS]:
            line = Path(f"/proc/{self.pid}/task/{task}/stat").read_text()
            if line.rpartition(")")[2].split()[0] not in "SIT":
                return False
        return True

    def _memory(self) -> tuple[int, int]:
        """(bytes of its own and shared without a file, threads)."""
        now = status(self.pid)
        return now.get("RssAnon", 0) + now.get("RssShmem", 0), now["Threads"]


def too_many_files(folder: str, pid: int) -> bool:
    """True if `folder` holds more than DISK MiB or too many files.

    Files that were removed and are still open or mapped count, too, where this user may see them.
    """
    sizes: dict[tuple[int, int], int] = {}

    def count(about: os.stat_result) -> None:
        sizes[about.st_dev, about.st_ino] = about.st_blocks * 512

    left = [folder]
    os.listdir(folder)  # an error here is no session's doing
    try:
        while left:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    count(entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    if len(sizes) > FILES:
                        return True
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError:
        return True  # so deep that it has no name, or closed to us
    removed = False
    with contextlib.suppress(PermissionError):  # root without all its rights sees none of these
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(f"/proc/{pid}/fd/{number}")
                if stat.S_ISREG(about.st_mode):
                    count(about)
        with open(f"/proc/{pid}/maps", errors="replace") as maps:
            removed = any(folder in line and line.rstrip().endswith("(deleted)") for line in maps)
    return removed or sum(sizes.values()) > DISK << 20
