"""The agent: runs a student's cells, and answers questions about what they made.

It reads requests, one line of JSON each, from one pipe and answers each with one line to
another, which carries the request's `nonce`:

    {"nonce", "do": "run", "code"}            -> {"nonce", "ok", "error", "shown", "value"}
    {"nonce", "do": "ask", "code", "inputs"}  -> {"nonce", "ok", "value"}

Whatever runs here is the student's as soon as the first cell has run, the agent too. So nothing
that it says is trusted, and it holds nothing that a student may not see.
"""

import ast
import builtins
import io
import json
import os
import random
import re
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

DEPTH, SIZE = 32, 1 << 20  # how deep data may be nested, and how many bytes of JSON it may be
SHOWN, VALUE = 16 << 10, 4 << 10  # bytes kept of what a cell printed, and of its value
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{5,}")
COMMANDS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
CUT = "\n[cut here]\n"


class NotData(Exception):
    """A value is not made of None, bool, int, float, str, list and dict alone, or is too large."""


def data(value: object, depth: int = 0) -> Any:
    """`value` as plain data: by exact type, so that no `__eq__` of a student's comes with it."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if kind is int and value.bit_length() <= 1024:
        return value
    if kind is str and value.isascii():
        return value
    if kind is str:
        value.encode()  # half a surrogate is no text
        return value
    if kind in (list, tuple) and depth < DEPTH:
        return [data(each, depth + 1) for each in value]
    if kind is dict and depth < DEPTH and all(type(key) is str for key in value):
        return {data(key): data(each, depth + 1) for key, each in value.items()}
    raise NotData


class Shown(io.TextIOBase):
    """What a cell prints: the beginning is kept; more than `most` bytes end the session."""

    encoding = "utf-8"

    def __init__(self, most: int, stop: Any, keep: int = SHOWN) -> None:
        """`stop()` is called once there are more bytes than `most`."""
        super().__init__()
        self.parts: list[str] = []
        self.bytes, self.most, self.keep, self.stop = 0, most, keep, stop

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, text: str) -> int:
        """Keep `text` while there is room."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.bytes <= self.keep:
            self.parts.append(text[: self.keep + 1])
        self.bytes += len(text)
        if self.bytes > self.most:
            self.stop()
        return len(text)


def clean(text: str, most: int, folder: str = "/tmp") -> str:
    """`text` as it is the same on every run: no addresses, `folder` called /tmp, cut to `most`.

    What commands a terminal, or turns the direction of writing, is left out.
    """
    text = ADDRESS.sub("0x...", text.replace("\r\n", "\n").replace("\r", "\n"))
    if folder != "/tmp":
        text = text.replace(folder, "/tmp")
    raw = COMMANDS.sub("", text).encode("utf-8", "replace")
    if len(raw) <= most:
        return raw.decode()
    return raw[: most - len(CUT)].decode("utf-8", "ignore") + CUT


def make_shell(config: Any = None) -> Any:
    """An IPython shell that reads and writes no file, and shows results without a prompt."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        def write_output_prompt(self) -> None:
            """No prompt."""

        def quiet(self) -> bool:
            return False  # a semicolon hides nothing: there is no page to keep short

    class Shell(InteractiveShell):
        displayhook_class = Hook

    config = Config() if config is None else config
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Plain"
    config.HistoryManager.enabled = False
    return Shell.instance(config=config)


class Agent:
    """One namespace, and the requests about it."""

    def __init__(self, requests: int, replies: int, output: int, config: Any = None) -> None:
        """Read from and write to two pipes; a cell may print `output` bytes."""
        self.requests = os.fdopen(requests, "rb")
        self.replies = replies
        self.output = output
        self.folder = os.getcwd()
        self.nonce = ""
        self.shell = make_shell(config)

    def serve(self) -> NoReturn:
        """Answer until the pipe ends."""
        try:
            while line := self.requests.readline():
                request = json.loads(line)
                self.nonce = request["nonce"]
                answer = self.ask if request["do"] == "ask" else self.run
                self.reply(answer(request))
        finally:
            os._exit(1)  # if not the end of requests, then what the student made of this

    def reply(self, content: Mapping) -> None:
        """Write one line."""
        line = json.dumps({"nonce": self.nonce, **content}).encode() + b"\n"
        while line:
            line = line[os.write(self.replies, line) :]

    def stop(self) -> NoReturn:
        """Too much was printed."""
        self.reply({"ended": "output"})
        os._exit(1)

    def run(self, request: Mapping) -> dict:
        """Run a cell as a notebook does."""
        shown = Shown(self.output, self.stop)
        sys.stdout = sys.stderr = shown
        self.shell.execution_count += 1
        result = self.shell.run_cell(request["code"], store_history=False)
        error = result.error_before_exec or result.error_in_exec
        value = None
        if error is None and result.result is not None:
            value = clean(self.text(result.result), VALUE, self.folder)
        text = clean("".join(shown.parts), SHOWN, self.folder)
        name = None if error is None else clean(type(error).__name__, 64)
        return {"ok": error is None, "error": name, "shown": text, "value": value}

    def text(self, value: object) -> str:
        """`value` as the notebook would show it in text; empty if that fails."""
        try:
            return str(self.shell.display_formatter.format(value)[0].get("text/plain", ""))
        except Exception:
            return ""

    def ask(self, request: Mapping) -> dict:
        """The value of the last expression of `code`, as data; nothing else of it gets out.

        The statements are the body of a function whose parameters are the inputs; all other names
        are the notebook's.
        """
        sys.stdout = sys.stderr = Shown(self.output, self.stop, keep=-1)
        try:
            value = data(question(request["code"], request["inputs"], self.shell.user_ns))
            if len(json.dumps(value)) > SIZE:
                raise NotData
        except BaseException:  # SystemExit and KeyboardInterrupt, too, are the student's
            return {"ok": False, "value": None}
        return {"ok": True, "value": value}


def question(code: str, inputs: Mapping[str, Any], names: dict[str, Any]) -> object:
    """Run statements, the last of them an expression, and give its value.

    They run in the notebook's namespace: what they bind is bound there. Only the inputs are local.
    """
    *before, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        raise SyntaxError("the last statement is no expression")
    module = ast.parse(f"def question({', '.join(inputs)}): pass")
    shared = sorted(names_bound(before) - set(inputs))
    module.body[0].body = [
        *([ast.Global(shared)] if shared else []),
        *before,
        ast.Return(last.value),
    ]
    made: dict[str, Any] = {}
    builtins.exec(
        builtins.compile(ast.fix_missing_locations(module), "<question>", "exec"), names, made
    )
    return made["question"](**inputs)


def names_bound(statements: list[ast.stmt]) -> set[str]:
    """The names that statements bind."""
    found = set()
    for node in (inner for each in statements for inner in ast.walk(each)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def seed() -> None:
    """Every session draws the same numbers."""
    random.seed(0)
    for name in ("numpy", "torch"):
        if name in sys.modules:
            module = sys.modules[name]
            module.manual_seed(0) if name == "torch" else module.random.seed(0)
