"""The judge's side of a session: asks, waits no longer than agreed, and believes no line.

Whatever the agent sends is read with a limit on its bytes, and must be the one answer to the
one question that is open. A line before it was asked for, a second one, one that is too long or
no JSON of that form ends the session.
"""

import ast
import json
import os
import secrets
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.grade.sandbox.client import Helper
from tools.grade.sandbox.watch import Watch

MIB = 1 << 20
LINE = (1 << 20) + (1 << 16)  # bytes of an answer
DEPTH = 64  # how deep it may be nested
READY = 120  # s that a session may take to begin, on a machine that is busy
TICK = 0.02  # s between looks at what a session uses


@dataclass(frozen=True)
class Limits:
    """What a session may use."""

    seconds: float = 10  # of processor time for each request, and as much of mere waiting
    memory: int = 1024  # MiB beyond what PyTorch takes by itself


class Ended(Exception):
    """The session is over; `kind` says why.

    One of `time`, `memory`, `disk`, `output`, `crash` (its process ended) and `protocol` (it
    sent what no honest agent sends).
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

    watch: Watch

    def __init__(self, place: Helper, requests: int, replies: int, limits: Limits) -> None:
        """Speak through two pipes, which this session closes."""
        self.place, self.requests, self.replies = place, requests, replies
        self.limits = limits
        self.over: str | None = None
        for each in (requests, replies):
            os.set_blocking(each, False)

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

        `inputs` are bound as names, for this code alone. Raises Raised or Ended, and ValueError
        if `code` or `inputs` are not what can be asked.
        """
        inputs = dict(inputs or {})
        check_question(code, inputs)
        reply = self._exchange({"do": "ask", "code": code, "inputs": inputs}, seconds)
        if set(reply) != {"ok", "value"} or type(reply["ok"]) is not bool:
            self._end("protocol")
        if not reply["ok"]:
            raise NoData if reply["value"] == "no data" else Raised
        return reply["value"]

    def begin(self, own_memory: Callable[[], int]) -> None:
        """Wait until the agent is ready. Raises RuntimeError with the reason if it cannot be.

        No cell has run yet, so it is believed. It has no /proc to ask what memory it has, from
        where on its limit counts, so it is told.
        """
        self._hear()
        most = own_memory() + self.limits.memory * MIB
        os.write(self.requests, json.dumps({"memory": most}).encode() + b"\n")
        self._hear()

    def _hear(self) -> None:
        try:
            said = json.loads(self._read(time.monotonic() + READY))
        except Ended as ended:
            raise RuntimeError(f"the session ended before it began ({ended.kind})") from None
        if "failed" in said:
            raise RuntimeError(said["failed"])

    def close(self) -> None:
        """End the session; all that it was is gone afterwards."""
        if self.over is None:
            self.over = "closed"
            self._release()

    def _release(self) -> None:
        for each in (self.requests, self.replies):
            os.close(each)
        self.place.end()

    def _end(self, kind: str) -> None:
        """Kill the session, and raise Ended."""
        self._release()
        self.over = kind
        raise Ended(kind) from None

    def _exchange(self, request: dict, seconds: float | None) -> dict:
        if self.over is not None:
            raise Ended(self.over)
        if self._pending():
            self._end("protocol")  # it answers what was not asked
        nonce = secrets.token_hex(16)
        line = json.dumps({"nonce": nonce, **request}).encode() + b"\n"
        self.watch.begin(self.limits.seconds if seconds is None else seconds)
        self._write(line)
        reply = self._parse(self._read(None))
        if reply.pop("nonce", None) != nonce:
            self._end("protocol")
        if reply.get("ended") == "output":
            self._end("output")
        return reply

    def _pending(self) -> bool:
        """True if something was sent that nobody asked for."""
        try:
            if not os.read(self.replies, 1):
                self._end("crash")
        except BlockingIOError:
            return False
        return True

    def _parse(self, line: bytes) -> dict:
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if type(reply) is not dict or not _is_text(reply):
            self._end("protocol")
        return reply

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self.requests, left) :]
            except BlockingIOError:
                self._wait(self.requests, select.POLLOUT, None)
            except BrokenPipeError:
                self._end("crash")

    def _read(self, until: float | None) -> bytes:
        """One line and nothing after it."""
        parts, size = [], 0
        while True:
            self._wait(self.replies, select.POLLIN, until)
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

    def _wait(self, pipe: int, event: int, until: float | None) -> None:
        """Until the pipe is ready, or `until`; without one, the session is looked at meanwhile."""
        poll = select.poll()
        poll.register(pipe, event)
        while True:
            ready = poll.poll(TICK * 1000)
            if until is None and (kind := self.watch.look()):
                self._end(kind)
            if ready:
                return
            if until is not None and time.monotonic() > until:
                self._end("time")


def check_question(code: str, inputs: Mapping[str, Any]) -> None:
    """Raise ValueError if `code` does not end in an expression or an input is no name or data."""
    body = ast.parse(code).body  # SyntaxError is a ValueError of its own kind
    if not body or not isinstance(body[-1], ast.Expr):
        raise ValueError(f"a question ends in an expression: {code!r}")
    for name in inputs:
        if not name.isidentifier():
            raise ValueError(f"no name for an input: {name!r}")
    json.dumps(inputs)


def _is_text(value: Any) -> bool:
    """True if nothing is nested too deep, and each string can be written as UTF-8."""
    level = [value]
    for _ in range(DEPTH):
        inner = []
        for each in level:
            if isinstance(each, str):
                try:
                    each.encode()
                except UnicodeEncodeError:
                    return False
            elif isinstance(each, dict):
                inner += [*each, *each.values()]
            elif isinstance(each, list):
                inner += each
        if not inner:
            return True
        level = inner
    return False
