"""What a session uses, seen from outside: processor time, memory, threads, files.

A request may take so many seconds of processor time, and may wait as long without working. Time in
which it wants a processor and gets none is not counted.
"""

import contextlib
import os
import stat
import time
from pathlib import Path

import psutil

from tools.grade.sandbox.inside import DISK, THREADS

FILES = 4096
BACKSTOP = 30  # times its seconds: no request takes longer, whatever it does
SLOW = 5  # looks between two at what takes longer to see


class Watch:
    """The use of one process, whose number is `pid` here outside."""

    def __init__(self, pid: int, memory: int, folder: str) -> None:
        """`memory` in MiB beyond what it has now; `folder` is where its files are."""
        self.process, self.folder = psutil.Process(pid), folder
        self.clock = ~pid << 3 | 2  # CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
        self.most = self._memory() + (memory << 20)
        self.looks, self.processor = 0, 0.0

    def begin(self, seconds: float) -> None:
        """A request begins, which may take so many seconds."""
        self.seconds, self.waited = seconds, 0.0
        with contextlib.suppress(OSError):  # it is gone; its socket says so
            self.processor = time.clock_gettime(self.clock)
        self.began, self.wall = self.processor, time.monotonic()
        self.end = self.wall + BACKSTOP * seconds + 60

    def look(self) -> str | None:
        """Why the session must end now: `time`, `memory`, `disk`, or None."""
        with contextlib.suppress(OSError, IndexError, psutil.Error):  # gone; its socket says so
            processor, wall = time.clock_gettime(self.clock), time.monotonic()
            threads = list(Path(f"/proc/{self.process.pid}/task").iterdir())
            if all(map(sleeps, threads[: 2 * THREADS])):
                self.waited += max(0.0, wall - self.wall - (processor - self.processor))
            self.processor, self.wall = processor, wall
            if max(processor - self.began, self.waited) > self.seconds or wall > self.end:
                return "time"
            if self._memory() > self.most or len(threads) > THREADS:
                return "memory"
            self.looks += 1
            if self.looks % SLOW == 0 and too_many_files(self.folder, self.process.pid):
                return "disk"
        return None

    def _memory(self) -> int:
        """Bytes of its own; what is shared has a file."""
        now = self.process.memory_info()
        return now.rss - now.shared


def sleeps(thread: Path) -> bool:
    """True if it neither runs nor wants to."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "SIT"


def too_many_files(folder: str, pid: int) -> bool:
    """True if `folder` and removed files still open hold over DISK MiB, or too many files."""
    sizes: dict[tuple[int, int], int] = {}

    def count(about: os.stat_result) -> None:
        sizes[about.st_dev, about.st_ino] = about.st_blocks * 512

    left = [folder]
    os.listdir(folder)  # an error here is no session's doing
    try:
        while left and len(sizes) <= FILES:
            for path in map(Path, os.scandir(left.pop())):
                count(about := path.lstat())
                left += [path] if stat.S_ISDIR(about.st_mode) else []
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError:
        return True  # so deep that it has no name, or closed to us
    with contextlib.suppress(PermissionError):  # root without all its rights sees none of these
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if entry.is_file():
                count(entry.stat())
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        if any(folder in line and line.endswith("(deleted)") for line in maps):
            return True
    return len(sizes) > FILES or sum(sizes.values()) > DISK << 20
