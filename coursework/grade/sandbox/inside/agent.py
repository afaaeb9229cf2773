"""The agent: runs a student's cells, and answers questions about what they defined.

It reads requests from a socket, one line of JSON each, and answers each with one line:

    {"nonce", "do": "run", "code", "given", "begins"}   -> {"nonce", "error"}
    {"nonce", "do": "ask", "code", "inputs", "answer"}  -> {"nonce", "value", "error", "gaps"}

`given` is true of what the assignment gives, before any cell of the student's, and `begins` of
the first cell of an exercise. `answer` is the name of the exercise's answer. Where a question
has no value, `error` is the name of the error that the student's code raised, or `NO_DATA`.
`gaps` says why a measurement cannot be relied on.

From the first cell on, this process is the student's. So nothing that it says is trusted, and it
holds nothing that a student may not see.
"""

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from . import HIDDEN, NO_DATA, RUNNING, question
from .meter import Meter, keep_from_host
from .plain import NotData, Plain, data, every_class, is_small
from .pristine import Pristine, stop_watching

SOCKET = 3  # the number of the file on which it is asked and answers
# No process has memory from here to twice as much. A GPU's memory seems to be there.
ADDRESSES = 1 << 47


class Answer:
    """Calls a student's code during a question, and remembers what it raised."""

    def __init__(self, pristine: Pristine) -> None:
        self._pristine = pristine
        # The id of the last error, and its name.
        self.raised: tuple[int, str] | None = None

    def run(self, function: Callable, arguments: tuple, named: dict) -> Any:
        shapes = shapes_of([*arguments, *named.values()])
        kept = self._pristine.bring_back()
        try:
            return function(*arguments, **named)
        except (
            BaseException
        ) as error:  # SystemExit and KeyboardInterrupt are theirs, too
            sys.settrace(None)
            self.raised = id(error), type(error).__name__
            raise
        finally:
            stop_watching()
            self._pristine.restore()
            self._pristine.set_aside(kept)
            for value, kind, attributes in shapes:
                put_into_shape(value, kind, attributes)

    def has_raised(self, error: BaseException) -> bool:
        return self.raised is not None and self.raised[0] == id(error)


def shapes_of(values: list[Any]) -> list[tuple[Any, type, set[str]]]:
    """Return each object that a student's code is handed, with its class and attributes."""
    import torch

    shapes = []
    for value in values:
        parts = [value]
        if isinstance(value, torch.nn.Module):
            parts = list(torch.nn.Module.modules(value))
            parts += torch.nn.Module.parameters(value)
        for part in parts:
            if isinstance(part, list | tuple):
                shapes += shapes_of(list(part))
            elif hasattr(part, "__dict__") and not isinstance(part, type):
                shapes.append((part, type(part), set(vars(part))))
    return shapes


def put_into_shape(value: Any, kind: type, attributes: set[str]) -> None:
    """Give an object its class back, and take from it what hides the methods of that."""
    if type(value) is not kind:
        object.__setattr__(value, "__class__", kind)
    for name in set(vars(value)) - attributes:
        if hasattr(kind, name):
            del vars(value)[name]


class Agent:
    def __init__(self, config: Any, simulated: bool) -> None:
        # Imported here, because the judge has no need of it.
        from IPython.core.interactiveshell import InteractiveShell

        self.requests = os.fdopen(SOCKET, "rb")
        self.nonce = ""
        config.InteractiveShell.xmode = "Plain"
        self.shell = InteractiveShell.instance(config=config)
        self.given: dict[str, Any] = {}
        self.meter = None
        if simulated:
            keep_from_host(ADDRESSES + secrets.randbelow(ADDRESSES >> 12) * 4096)
            self.meter = Meter()
        self.pristine = Pristine(simulated)
        self.libraries = every_class()
        for name in list(sys.modules):  # cells import nothing from here
            if name.split(".")[0] == __package__:
                del sys.modules[name]

    def serve(self) -> NoReturn:
        try:
            while line := self.requests.readline():
                request = json.loads(line)
                self.nonce = request["nonce"]
                # Nobody reads what a cell shows.
                silence = open(os.devnull, "w", encoding="utf-8", errors="replace")
                sys.stdout = sys.stderr = silence
                if request["do"] == "ask":
                    self.reply(self.ask(request))
                else:
                    self.reply(self.run(request))
        finally:
            # Requests have ended, or the student's code has broken this loop.
            os._exit(1)

    def reply(self, content: Mapping) -> None:
        line = json.dumps({"nonce": self.nonce, **content}).encode() + b"\n"
        while line:
            line = line[os.write(SOCKET, line) :]

    def run(self, request: Mapping) -> dict:
        self.shell.execution_count += 1
        if request["begins"] and self.meter is not None:
            self.meter.begin()
        self.pristine.bring_back()
        result = self.shell.run_cell(request["code"], store_history=False)
        if request["given"]:
            if self.meter is not None and not request["begins"]:
                self.meter.note_given()
            self.given = question.given_names(
                self.shell.user_ns, self.pristine.builtins
            )
        error = result.error_before_exec or result.error_in_exec
        return {"error": error and type(error).__name__}

    def ask(self, request: Mapping) -> dict:
        """Return the value of the last expression of `code`, as data.

        Nothing else of it gets out.
        """
        stop_watching()
        self.pristine.restore()
        self.pristine.set_aside()
        answer = Answer(self.pristine)
        records = []
        value = None
        error = NO_DATA
        try:
            result = data(self.value(request, answer, records))
            if is_small(result):
                value = result
                error = None
        except NotData:
            pass
        except BaseException as fault:
            if answer.has_raised(fault):
                error = answer.raised[1]

        gaps = []
        for record in records:
            gaps += record["gaps"]
        if not self.pristine.is_seen() and records:
            gaps.append(HIDDEN)
        if not self.pristine.is_quiet():
            gaps.append(RUNNING)
        return {"value": value, "error": error, "gaps": gaps}

    def value(self, request: Mapping, answer: Answer, records: list[dict]) -> object:
        code = request["code"]
        inputs = request["inputs"]
        own = self.shell.user_ns
        plain = Plain(answer.run, self.pristine.restore, self.libraries)
        names = dict(self.given)
        names["notebook"] = question.Notebook(own, plain)
        names["plain"] = plain
        names["steps"] = plain.steps
        names["__builtins__"] = self.pristine.builtins
        if self.meter is not None:
            names["watch"] = recording(self.meter.watch, records)
        for name in question.names_in(code) - inputs.keys():
            is_answer = name == request["answer"]
            is_unknown = name not in names and name not in self.pristine.builtins
            if name in own and (is_answer or is_unknown):
                names[name] = plain(own[name])
        return plain(question.answer_to(code, inputs, names))


def recording(watch: Callable, records: list[dict]) -> Callable:
    """Return a `watch` that also puts each of its records into a list."""

    @contextmanager
    def watched() -> Iterator[dict]:
        with watch() as record:
            records.append(record)
            yield record

    return watched
