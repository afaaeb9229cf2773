"""The judge's side of a session: asks, waits no longer than agreed, and believes no line.

Whatever the agent sends is read with a limit on its bytes, and must be the one answer to the
one question that is open. A line before it was asked for, a second one, one that is too long or
no JSON of that form ends the session.
"""

import json
import os
import secrets
import select
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tools.grade.sandbox.client import Helper
from tools.grade.sandbox.watch import Watch

LINE = (1 << 20) + (1 << 16)  # bytes of an answer
READY = 120  # s that a session may take to begin, on a machine that is busy
TICK = 0.02  # s between looks at what a session uses


@dataclass(frozen=True)
class Limits:
    """What a session may use."""

    seconds: float = 10  # of processor time for each request, and as much of mere waiting
    memory: int = 1024  # MiB beyond what PyTorch takes by itself


class Ended(Exception):
    """The session is over; `kind` says why.

    One of `time`, `memory`, `disk`, `crash` (its process ended) and `protocol` (it sent what no
    honest agent sends).
    """

    def __init__(self, kind: str) -> None:
        """`kind` is for the feedback."""
        super().__init__(kind)
        self.kind = kind


class Raised(Exception):
    """The student's code raised an error; nothing else is said of it."""


class NoData(Raised):
    """It gave a value of no form that JSON holds."""


class Session:
    """One agent, and the questions to it."""

    def __init__(self, place: Helper, limits: Limits, imports: Sequence[str]) -> None:
        """Start it. Raises RuntimeError with the reason if it cannot be."""
        self.place, self.limits = place, limits
        pid, self.requests, self.replies = place.start(limits.memory, imports)
        self.over: str | None = None
        for each in (self.requests, self.replies):
            os.set_blocking(each, False)
        self.watch = Watch(pid, limits.memory, place.files())
        self.watch.begin(READY)
        try:
            said = json.loads(self._read())  # no cell has run yet, so it is believed
        except Ended as ended:
            raise RuntimeError(f"the session ended before it began ({ended.kind})") from None
        if "failed" in said:
            self.close()
            raise RuntimeError(said["failed"])

    def run(self, source: str, seconds: float | None = None) -> str | None:
        """Run a cell; the name of the error that it raised, if it did. Raises Ended.

        Nothing that it shows is kept: it might be what a question before it said.
        """
        reply = self._exchange({"do": "run", "code": source}, seconds)
        if set(reply) != {"error"} or not isinstance(reply["error"], str | None):
            self._end("protocol")
        return reply["error"]

    def ask(
        self, code: str, inputs: Mapping[str, Any] | None = None, seconds: float | None = None
    ) -> Any:
        """The value of the last expression of `code`, as plain JSON data.

        `inputs` are bound as names, for this code alone. Raises Raised or Ended.
        """
        request = {"do": "ask", "code": code, "inputs": dict(inputs or {})}
        reply = self._exchange(request, seconds)
        if set(reply) != {"ok", "value"} or type(reply["ok"]) is not bool:
            self._end("protocol")
        if not reply["ok"]:
            raise NoData if reply["value"] == "no data" else Raised
        return reply["value"]

    def close(self, kind: str = "closed") -> None:
        """End the session; all that it was is gone afterwards."""
        if self.over is None:
            self.over = kind
            os.close(self.requests)
            os.close(self.replies)
            self.place.end()

    def _end(self, kind: str) -> NoReturn:
        self.close(kind)
        raise Ended(kind) from None

    def _exchange(self, request: dict, seconds: float | None) -> dict:
        if self.over is not None:
            raise Ended(self.over)
        nonce = secrets.token_hex(16)
        line = json.dumps({"nonce": nonce, **request}).encode() + b"\n"
        self.watch.begin(self.limits.seconds if seconds is None else seconds)
        self._write(line)
        reply = parsed(self._read())
        if reply.pop("nonce", None) != nonce:  # it is no answer, or one to another question
            self._end("protocol")
        return reply

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self.requests, left) :]
            except BlockingIOError:
                self._wait(self.requests, select.POLLOUT)
            except BrokenPipeError:
                self._end("crash")

    def _read(self) -> bytes:
        """One line and nothing after it."""
        parts, size = [], 0
        while True:
            self._wait(self.replies, select.POLLIN)
            try:
                part = os.read(self.replies, 1 << 16)
            except BlockingIOError:
                continue
            if not part:
                self._end("crash")
            parts.append(part)
            size += len(part)
            end = part.find(b"\n")
            if size > LINE or 0 <= end < len(part) - 1:
                self._end("protocol")
            if end >= 0:
                return b"".join(parts)

    def _wait(self, pipe: int, event: int) -> None:
        """Until the pipe is ready; what the session uses is looked at meanwhile."""
        poll = select.poll()
        poll.register(pipe, event)
        ready = False
        while not ready:
            ready = poll.poll(TICK * 1000)
            if kind := self.watch.look():
                self._end(kind)


def parsed(line: bytes) -> dict:
    """What a reply says; nothing, if it is not of the form that an honest one has."""
    try:
        reply = json.loads(line)
        # Half a character could not be written anywhere.
        json.dumps(reply, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return reply if type(reply) is dict else {}
