"""The agent: runs a student's cells, and answers questions about what they made.

It reads requests from a socket, one line of JSON each, and answers each with one line:

    {"nonce", "do": "run", "code"}            -> {"nonce", "error"}
    {"nonce", "do": "ask", "code", "inputs"}  -> {"nonce", "ok", "value"}

From the first cell on, all that runs here is the student's. So nothing that it says is trusted, and
it holds nothing that a student may not see.
"""

import ast
import builtins
import json
import os
import symtable
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

SOCKET = 3  # the number of the file on which it is asked and answers
DEPTH, SIZE = 32, 1 << 20  # how deep data may be nested, and how many bytes of JSON it may be
LISTED = (("torch", "Tensor"), ("numpy", "ndarray"), ("numpy", "generic"))
WATCHED = ("cudasim", "torch.cuda")  # modules in which questions read time, copies and memory
BUILTINS = dict(vars(builtins))
NO_DATA = "no data"  # said in place of a value
BLOCKS = ast.Module | ast.FunctionDef | ast.With  # a loop would take long


class NotData(Exception):
    """A value has no form that JSON holds, or is too large."""


def data(value: object, depth: int = 0) -> Any:
    """`value` as plain data of Python's own types, so that no `__eq__` comes with it."""
    kind = type(value)
    if kind is str:
        value.encode()  # half a surrogate is no text
    if kind in (type(None), bool, float, str) or (kind is int and value.bit_length() <= 1024):
        return value
    if kind in (list, tuple) and depth < DEPTH:
        return [data(each, depth + 1) for each in value]
    if kind is dict and depth < DEPTH and all(isinstance(key, str) for key in value):
        return {data(key): data(each, depth + 1) for key, each in value.items()}
    for module, name in LISTED:
        if module in sys.modules and isinstance(value, getattr(sys.modules[module], name)):
            return data(value.tolist(), depth + 1)
    for base in (int, float, str, list, tuple, dict):
        if kind is not base and isinstance(value, base):  # torch.Size, an Enum, a Counter
            return data(base(value), depth)
    raise NotData


class Frozen:
    """What questions read time, copies and memory by, as it was before the first cell."""

    def __init__(self) -> None:
        watched = {name: sys.modules[name] for name in sys.modules if name.startswith(WATCHED)}
        self.modules = watched | {"torch": sys.modules["torch"]}
        values = [value for module in watched.values() for value in vars(module).values()]
        classes = (value for value in values if isinstance(value, type))
        ours = (kind for kind in classes if kind.__module__.startswith(WATCHED))
        self.before = {owner: dict(vars(owner)) for owner in [*watched.values(), *ours]}

    def put_back(self) -> None:
        """Undo what was put in the place of these, or added: an alias tells no other time."""
        vars(builtins).update(BUILTINS)
        sys.modules.update(self.modules)
        self.modules["torch"].cuda = self.modules["torch.cuda"]
        for owner, before in self.before.items():
            now = vars(owner)
            for name in now.keys() - before.keys():  # a module may load more of itself
                if isinstance(owner, type) or is_code(now[name]):
                    delattr(owner, name)
            for name, value in before.items():
                if now.get(name) is not value and is_code(value):
                    setattr(owner, name, value)


def is_code(value: object) -> bool:
    return callable(value) or hasattr(value, "__get__")


class Agent:
    def __init__(self, config: Any) -> None:
        from IPython.core.interactiveshell import InteractiveShell  # the judge has no need of it

        self.requests, self.nonce = os.fdopen(SOCKET, "rb"), ""
        config.InteractiveShell.xmode = "Plain"
        self.shell = InteractiveShell.instance(config=config)
        self.frozen = Frozen()

    def serve(self) -> NoReturn:
        try:
            while line := self.requests.readline():
                request = json.loads(line)
                self.nonce = request["nonce"]
                # Nobody reads what a cell shows.
                sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8", errors="replace")
                self.reply(self.ask(request) if request["do"] == "ask" else self.run(request))
        finally:
            os._exit(1)  # if not the end of requests, then what the student made of this

    def reply(self, content: Mapping) -> None:
        line = json.dumps({"nonce": self.nonce, **content}).encode() + b"\n"
        while line:
            line = line[os.write(SOCKET, line) :]

    def run(self, request: Mapping) -> dict:
        self.shell.execution_count += 1
        result = self.shell.run_cell(request["code"], store_history=False)
        error = result.error_before_exec or result.error_in_exec
        return {"error": error and type(error).__name__}

    def ask(self, request: Mapping) -> dict:
        """The value of the last expression of `code`, as data; nothing else of it gets out."""
        try:
            code, inputs = request["code"], request["inputs"]
            value = data(question(code, inputs, self.shell.user_ns, self.frozen.put_back))
            is_small = len(json.dumps(value)) <= SIZE
            return {"ok": is_small, "value": value if is_small else NO_DATA}
        except BaseException as error:  # SystemExit and KeyboardInterrupt, too, are the student's
            return {"ok": False, "value": NO_DATA if isinstance(error, NotData) else None}


def question(code: str, inputs: dict, names: dict, put_back: Callable = lambda: None) -> object:
    """Run statements in the notebook's namespace; the value of the last, an expression. Only the
    inputs are local, and Python's own names what they were: `sum` adds, whatever else is called so.
    `put_back()` is called around each statement that is in no loop."""
    tree = ast.parse(code)
    if not isinstance(tree.body[-1], ast.Expr):
        raise SyntaxError("the last statement is not an expression")
    symbols = symtable.symtable(code, "<question>", "exec").get_symbols()
    bound = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    own = {name: BUILTINS[name] for name in sorted((used & BUILTINS.keys()) - bound)}
    own |= {"put_back": put_back} | inputs
    shared = sorted(bound - own.keys())
    tree.body[-1] = ast.Return(tree.body[-1].value)
    call = ast.parse("put_back()").body[0]
    for node in [node for node in ast.walk(tree) if isinstance(node, BLOCKS)]:
        node.body = [*(step for statement in node.body for step in (call, statement)), call]
    module = ast.parse(f"def question({', '.join(own)}): pass")
    module.body[0].body = [*([ast.Global(shared)] if shared else []), *tree.body]
    made: dict[str, Any] = {}
    program = compile(ast.fix_missing_locations(module), "<question>", "exec")
    exec(program, names, made)
    return made["question"](**own)
