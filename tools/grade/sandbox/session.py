"""The judge's side of a session: asks, waits no longer than agreed, and believes no line.

What the agent sends is read with a limit, and must be the one answer to the one open question: a
line too early, too many, too long or of another form ends the session.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tools.grade.sandbox.helper import Helper
from tools.grade.sandbox.watch import Watch

LINE = (1 << 20) + (1 << 16)  # bytes of an answer
READY = 120  # s that a session may take to begin, on a machine that is busy
SECONDS = 10  # of processor time for a request, and as much of mere waiting
TICK = 0.02  # s between looks at what a session uses


class Ended(Exception):
    """The session is over; `kind` is one of `time`, `memory`, `disk`, `crash` (its process ended)
    and `protocol` (it sent what no honest agent sends)."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Raised(Exception):
    """The student's code raised an error; nothing else is said of it."""


class NoData(Raised):
    """It gave a value of no form that JSON holds."""


class Session:
    """One agent, and the questions to it."""

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
            raise RuntimeError(f"the session ended before it began ({ended.kind})") from None
        if "failed" in said:
            self.close()
            raise RuntimeError(said["failed"])

    def run(self, source: str, seconds: float = SECONDS) -> str | None:
        """Run a cell; the name of its error, and nothing that it shows. Raises Ended."""
        reply = self._exchange({"do": "run", "code": source}, seconds)
        if set(reply) != {"error"} or not isinstance(reply["error"], str | None):
            self._end("protocol")
        return reply["error"]

    def ask(
        self, code: str, inputs: Mapping[str, Any] | None = None, seconds: float = SECONDS
    ) -> Any:
        """The value of `code`'s last expression, as JSON data. Raises Raised, Ended."""
        reply = self._exchange({"do": "ask", "code": code, "inputs": dict(inputs or {})}, seconds)
        if set(reply) != {"ok", "value"} or type(reply["ok"]) is not bool:
            self._end("protocol")
        if not reply["ok"]:
            raise NoData if reply["value"] == "no data" else Raised
        return reply["value"]

    def close(self, kind: str = "closed") -> None:
        """End the session; all that it was is gone afterwards."""
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
            json.dumps(reply, ensure_ascii=False).encode()  # half a character cannot be written
        except (ValueError, RecursionError):
            return {}
        # Else it is no answer, or one to another question.
        return reply if type(reply) is dict and reply.pop("nonce", None) == nonce else {}

    def _read(self) -> bytearray:
        """One line and nothing after it."""
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
