"""The judge's side of a session: asks, waits no longer than agreed, and believes no line.

What the agent sends is read with a limit, and must be the one answer to the one open question: a
line too early, too many, too long or of another form ends the session.
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
BACKSTOP = 30  # times its seconds: no request takes longer, whatever it does
SLOW = 5  # looks between two at what takes longer to see


class Ended(Exception):
    """The session is over; `kind` is one of `time`, `memory`, `disk`, `crash` (its process ended)
    and `protocol` (it sent what no honest agent sends)."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Raised(Exception):
    """The student's code raised an error, of which `name` is the name: nothing else is said."""

    def __init__(self, name: str = "Exception") -> None:
        super().__init__(name)
        self.name = name


class NoData(Raised):
    """It gave a value of no form that JSON holds, or not of the form that the question goes by."""


class Gap(Exception):
    """The record of a measurement is not whole; `reasons` are among `GAPS`."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


class Session:
    def __init__(self, helper: Helper, memory: int) -> None:
        """Start it, with `memory` MiB beyond what PyTorch takes. Raises RuntimeError."""
        self.helper = helper
        pid, self.socket = helper.start(memory)
        self.socket.settimeout(TICK)
        self.over: str | None = None
        self.watch = Watch(pid, memory, helper.files())
        self.watch.begin(READY)
        try:
            said = json.loads(self._read())  # no cell has run yet, so it is believed
        except Ended as ended:
            raise RuntimeError(
                f"the session ended before it began ({ended.kind})"
            ) from None
        if "failed" in said:
            self.close()
            raise RuntimeError(said["failed"])

    def run(
        self,
        source: str,
        seconds: float = SECONDS,
        given: bool = False,
        begins: bool = False,
    ) -> str | None:
        """Run a cell; the name of its error, and nothing that it shows. Raises Ended. `given` is
        what an assignment gives, whose names questions may use; an exercise `begins` with its first
        cell."""
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
        """The value of `code`'s last expression, as JSON data. `answer` is the one name of the
        student's that it is about. Raises Raised, Gap, Ended."""
        request = {"do": "ask", "code": code, "inputs": inputs or {}, "answer": answer}
        reply = self._exchange(request, seconds)
        if set(reply) != {"value", "error", "gaps"} or type(reply["gaps"]) is not list:
            self._end("protocol")
        if reply["gaps"]:
            raise Gap([gap for gap in GAPS if gap in reply["gaps"]] or [NOT_WHOLE])
        if reply["error"] is None:
            return reply["value"]
        if type(reply["error"]) is not str:
            self._end("protocol")
        raise NoData if reply["error"] == NO_DATA else Raised(reply["error"])

    def close(self, kind: str = "closed") -> None:
        if self.over is None:
            self.over = kind
            self.socket.close()
            self.helper.end()

    def _end(self, kind: str) -> NoReturn:
        self.close(kind)
        raise Ended(kind) from None

    def _exchange(self, request: dict, seconds: float) -> dict:
        """One request and the reply to it; {} for what is none."""
        if self.over is not None:
            raise Ended(self.over)
        nonce = secrets.token_hex(16)
        line = json.dumps({"nonce": nonce, **request}).encode() + b"\n"
        self.watch.begin(seconds)
        while line:
            line = line[self._patiently(self.socket.send, line) :]
        try:
            reply = json.loads(self._read())
            json.dumps(
                reply, ensure_ascii=False
            ).encode()  # half a character cannot be written
        except (ValueError, RecursionError):
            return {}
        # Else it is no answer, or one to another question.
        return (
            reply if type(reply) is dict and reply.pop("nonce", None) == nonce else {}
        )

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
        """What the socket does once it can; what the session uses is looked at meanwhile."""
        done = None
        while done is None:
            try:
                done = act(argument)
            except TimeoutError:
                pass
            except OSError:  # its process ended
                self._end("crash")
            if kind := self.watch.look():
                self._end(kind)
        return done


class Watch:
    """What a session uses, seen from outside: processor time, memory, threads, files. A request may
    take so many seconds of processor time, and may wait as long without working. Time in which it
    wants a processor and gets none is not counted."""

    def __init__(self, pid: int, memory: int, folder: str) -> None:
        """`memory` in MiB beyond what it has now; `folder` is where its files are."""
        self.process, self.folder = psutil.Process(pid), folder
        self.clock = (
            ~pid << 3 | 2
        )  # CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
        self.most = self._memory() + (memory << 20)
        self.looks, self.processor = 0, 0.0

    def begin(self, seconds: float) -> None:
        self.seconds, self.waited = seconds, 0.0
        with contextlib.suppress(OSError):  # it is gone; its socket says so
            self.processor = time.clock_gettime(self.clock)
        self.began, self.wall = self.processor, time.monotonic()
        self.end = self.wall + BACKSTOP * seconds + 60

    def look(self) -> str | None:
        """Why the session must end now: `time`, `memory`, `disk`, or None."""
        with contextlib.suppress(
            OSError, IndexError, psutil.Error
        ):  # gone; its socket says so
            processor, wall = time.clock_gettime(self.clock), time.monotonic()
            threads = list(Path(f"/proc/{self.process.pid}/task").iterdir())
            stats = [(thread / "stat").read_text() for thread in threads[: 2 * THREADS]]
            if {text.rpartition(")")[2].split()[0] for text in stats} <= {
                *"SIT"
            }:  # none wants one
                self.waited += max(0.0, wall - self.wall - (processor - self.processor))
            self.processor, self.wall = processor, wall
            if (
                max(processor - self.began, self.waited) > self.seconds
                or wall > self.end
            ):
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
                if stat.S_ISDIR(about.st_mode):
                    left.append(path)
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError:
        return True  # so deep that it has no name, or closed to us
    with contextlib.suppress(
        PermissionError
    ):  # root without all its rights sees none of these
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if entry.is_file():
                count(entry.stat())
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        if any(folder in line and line.endswith("(deleted)") for line in maps):
            return True
    return len(sizes) > FILES or sum(sizes.values()) > DISK << 20
