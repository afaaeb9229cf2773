"""A question: a few statements of a hidden test, run beside a student's code and not among it.

Its names are its own. It sees what the notebook gave before any cell of the student's ran,
Python's own functions, and of the student's names the answer alone, made plain: see `plain.py`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

NAME = "<question>"


class Notebook:
    """The student's notebook, as a question sees it.

    `notebook["A"]` is what a name stands for. `with notebook(A=1):` gives names other
    values for the length of a block.
    """

    def __init__(self, names: dict[str, Any], plain: Callable[[Any], Any]) -> None:
        self._names = names
        self._plain = plain

    def __getitem__(self, name: str) -> Any:
        return self._plain(self._names[name])

    @contextmanager
    def __call__(self, **values: Any) -> Iterator[None]:
        before = dict(self._names)
        self._names.update(values)
        try:
            yield
        finally:
            for name in values:
                self._names.pop(name, None)
                if name in before:
                    self._names[name] = before[name]


def given_names(
    names: Mapping[str, Any], builtins: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a notebook's names, with functions that no later cell can change."""
    given: dict[str, Any] = {"__builtins__": dict(builtins)}
    for name, value in names.items():
        if name.startswith("_"):
            continue
        if type(value) is FunctionType and value.__globals__ is names:
            value = with_names(value, given)
        given[name] = value
    return given


def with_names(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """Return a copy of a function that looks up its names in `names`."""
    name = function.__name__
    defaults = function.__defaults__
    copy = FunctionType(function.__code__, names, name, defaults, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy


def compiled(code: str, parameters: list[str]) -> CodeType:
    """Return code that defines a function `question`, made of these statements.

    The function returns the value of the last of them. Raises SyntaxError.
    """
    body = ast.parse(code, NAME).body
    if not body or not isinstance(body[-1], ast.Expr):
        raise SyntaxError("the last statement is not an expression")
    last = body.pop()
    body.append(ast.copy_location(ast.Return(last.value), last))

    # The parser makes the function's other fields, of which each Python has its own.
    module = ast.parse(f"def question({', '.join(parameters)}): pass", NAME)
    module.body[0].body = body
    return compile(ast.fix_missing_locations(module), NAME, "exec")


def names_in(code: str) -> set[str]:
    nodes = ast.walk(ast.parse(code, NAME))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def answer_to(code: str, inputs: Mapping[str, Any], names: dict[str, Any]) -> Any:
    """Run a question with `inputs`, among `names`; return its last expression's value."""
    program = compiled(code, sorted(inputs))
    defined: dict[str, Any] = {}
    exec(program, names, defined)
    return defined["question"](**inputs)
