"""The judge's side of a session: asks, waits no longer than agreed, and believes nothing.

What the agent sends is read with a limit, and must be the one answer to the one open question.
A line that is too early, too many, too long or of another form ends the session.
"""

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import psutil

from coursework.grade.sandbox.helper import Helper
from coursework.grade.sandbox.inside import DISK, GAPS, NO_DATA, NOT_WHOLE, THREADS

LINE = (1 << 20) + (1 << 16)  # bytes of an answer
READY = 120  # s that a session may take to begin, on a machine that is busy
SECONDS = 10  # of processor time for a request, and as much of mere waiting
TICK = 0.02  # s between looks at what a session uses
FILES = 4096
# A request may take this many times its seconds of wall time, and GRACE seconds more, whatever
# it does.
BACKSTOP = 30
GRACE = 60
SLOW = 5  # looks between two at what takes longer to see


class Ended(Exception):
    """The session is over.

    `kind` is one of `time`, `memory`, `threads`, `disk`, `crash` (its process ended) and
    `protocol` (it sent what no honest agent sends).
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Raised(Exception):
    """The student's code raised an error, of which only the `name` is told."""

    def __init__(self, name: str = "Exception") -> None:
        super().__init__(name)
        self.name = name


class NoData(Raised):
    """The value has no form that JSON holds, or not the form that the question expects."""


class Gap(Exception):
    """The record of a measurement is not whole; `reasons` are among `GAPS`."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


class Session:
    def __init__(self, helper: Helper, memory: int) -> None:
        """Begin a session of `memory` MiB beyond PyTorch's. Raises RuntimeError."""
        self.helper = helper
        pid, self.socket = helper.start(memory)
        self.socket.settimeout(TICK)
        self.over: str | None = None
        self.watch = Watch(pid, memory, helper.files())
        self.watch.begin(READY)
        try:
            greeting = json.loads(self._read())  # believed, as no cell has run yet
        except Ended as ended:
            fault = f"the session ended before it began ({ended.kind})"
            raise RuntimeError(fault) from None
        if "failed" in greeting:
            self.close()
            raise RuntimeError(greeting["failed"])

    def run(
        self,
        source: str,
        seconds: float = SECONDS,
        given: bool = False,
        begins: bool = False,
    ) -> str | None:
        """Run a cell; returns the name of its error, and nothing that it shows.

        `given` is true of what an assignment gives, whose names questions may use.
        `begins` is true of the first cell of an exercise. Raises Ended.
        """
        request = {"do": "run", "code": source, "given": given, "begins": begins}
        reply = self._exchange(request, seconds)
        if set(reply) != {"error"} or not isinstance(reply["error"], str | None):
            self._end("protocol")
        return reply["error"]

    def ask(
        self,
        code: str,
        inputs: dict | None = None,
        seconds: float = SECONDS,
        answer: str = "",
    ) -> Any:
        """Return the value of `code`'s last expression, as JSON data.

        `answer` is the one name of the student's that it is about. Raises Raised, Gap or
        Ended.
        """
        request = {"do": "ask", "code": code, "inputs": inputs or {}, "answer": answer}
        reply = self._exchange(request, seconds)
        if set(reply) != {"value", "error", "gaps"} or type(reply["gaps"]) is not list:
            self._end("protocol")
        if reply["gaps"]:
            known = [gap for gap in GAPS if gap in reply["gaps"]]
            raise Gap(known or [NOT_WHOLE])
        error = reply["error"]
        if error is None:
            return reply["value"]
        if type(error) is not str:
            self._end("protocol")
        raise NoData if error == NO_DATA else Raised(error)

    def close(self, kind: str = "closed") -> None:
        if self.over is None:
            self.over = kind
            self.socket.close()
            self.helper.end()

    def _end(self, kind: str) -> NoReturn:
        self.close(kind)
        raise Ended(kind) from None

    def _exchange(self, request: dict, seconds: float) -> dict:
        """Send a request and return the reply to it, or {} for anything else."""
        if self.over is not None:
            raise Ended(self.over)
        nonce = secrets.token_hex(16)
        line = json.dumps({"nonce": nonce, **request}).encode() + b"\n"
        self.watch.begin(seconds)
        while line:
            sent = self._patiently(self.socket.send, line)
            line = line[sent:]
        try:
            reply = json.loads(self._read())
            # Half a character, as JSON can hold one, cannot be written to a file.
            json.dumps(reply, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return {}
        if type(reply) is not dict or reply.pop("nonce", None) != nonce:
            return {}  # no answer, or one to another question
        return reply

    def _read(self) -> bytearray:
        line = bytearray()
        while not line.endswith(b"\n"):
            part = self._patiently(self.socket.recv, 1 << 16)
            line += part
            if not part:
                self._end("crash")
            if len(line) > LINE or b"\n" in part[:-1]:
                self._end("protocol")
        return line

    def _patiently(self, act: Callable[[Any], Any], argument: object) -> Any:
        """Do something with the socket once that is possible.

        What the session uses is watched meanwhile.
        """
        result = None
        while result is None:
            try:
                result = act(argument)
            except TimeoutError:
                pass
            except OSError:  # its process ended
                self._end("crash")
            kind = self.watch.look()
            if kind:
                self._end(kind)
        return result


class Watch:
    """What a session uses, seen from outside: processor time, memory, threads, files.

    A request may take so many seconds of processor time, and may wait as long without
    working. Time in which it wants a processor and gets none is not counted.
    """

    def __init__(self, pid: int, memory: int, folder: str) -> None:
        """`memory` is in MiB beyond what it has now; `folder` is where its files are."""
        self.process = psutil.Process(pid)
        self.folder = folder
        # CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
        self.clock = ~pid << 3 | 2
        self.most = self._memory() + (memory << 20)
        self.looks = 0
        self.processor = 0.0

    def begin(self, seconds: float) -> None:
        """Watch a request that may take so many seconds."""
        self.seconds = seconds
        self.waited = 0.0
        with contextlib.suppress(OSError):  # it is gone; its socket says so
            self.processor = time.clock_gettime(self.clock)
        self.wall = time.monotonic()
        self.began = self.processor
        self.end = self.wall + BACKSTOP * seconds + GRACE

    def look(self) -> str | None:
        """Return why the session must end now, in a kind of `Ended`, or None."""
        try:
            return self._reason_to_end()
        except (OSError, IndexError, psutil.Error):
            return None  # it is gone; its socket says so

    def _reason_to_end(self) -> str | None:
        processor = time.clock_gettime(self.clock)
        wall = time.monotonic()
        threads = list(Path(f"/proc/{self.process.pid}/task").iterdir())
        if not any(wants_processor(thread) for thread in threads[: 2 * THREADS]):
            worked = processor - self.processor
            self.waited += max(0.0, wall - self.wall - worked)
        self.processor = processor
        self.wall = wall

        used = max(processor - self.began, self.waited)
        if used > self.seconds or wall > self.end:
            return "time"
        if self._memory() > self.most:
            return "memory"
        if len(threads) > THREADS:
            return "threads"
        self.looks += 1
        if self.looks % SLOW == 0 and too_many_files(self.folder, self.process.pid):
            return "disk"
        return None

    def _memory(self) -> int:
        """Return the bytes of its own; what is shared has a file."""
        now = self.process.memory_info()
        return now.rss - now.shared


def wants_processor(thread: Path) -> bool:
    """Tell whether a thread, as a folder of /proc, is neither asleep, idle nor stopped."""
    text = (thread / "stat").read_text()
    state = text.rpartition(")")[2].split()[0]
    return state not in "SIT"


def too_many_files(folder: str, pid: int) -> bool:
    """Tell whether a session has more than DISK MiB in files, or too many of them.

    Files that were removed and are still open count as well.
    """
    sizes: dict[tuple[int, int], int] = {}

    def count(about: os.stat_result) -> None:
        sizes[about.st_dev, about.st_ino] = about.st_blocks * 512

    waiting = [folder]
    os.listdir(folder)  # an error here is no session's doing
    try:
        while waiting and len(sizes) <= FILES:
            for path in map(Path, os.scandir(waiting.pop())):
                about = path.lstat()
                count(about)
                if stat.S_ISDIR(about.st_mode):
                    waiting.append(path)
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError:
        return True  # so deep that it has no name, or closed to us

    # Root without all its rights sees none of these.
    with contextlib.suppress(PermissionError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if entry.is_file():
                count(entry.stat())
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        if any(folder in line and line.endswith("(deleted)") for line in maps):
            return True
    return len(sizes) > FILES or sum(sizes.values()) > DISK << 20
