"""A question: a few statements of a hidden test, run beside a student's code and not among it.

Its names are its own. It sees what the notebook gave before any cell of the student's had run,
Python's own functions, and of the student's names the answer alone, plain: see `plain.py`.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

NAME = "<question>"


class Notebook:
    """The student's notebook, for a question: `with notebook(A=1):` gives names other values for
    the length of a block, `notebook["A"]` is what a name stands for."""

    def __init__(self, names: dict[str, Any], plain: Any) -> None:
        self._names, self._plain = names, plain

    def __getitem__(self, name: str) -> Any:
        return self._plain(self._names[name])

    @contextmanager
    def __call__(self, **values: Any) -> Iterator[None]:
        before = {name: self._names[name] for name in values if name in self._names}
        self._names.update(values)
        try:
            yield
        finally:
            for name in values:
                self._names.pop(name, None)
            self._names.update(before)


def given_names(
    names: Mapping[str, Any], builtins: Mapping[str, Any]
) -> dict[str, Any]:
    """What stands in a notebook, its functions with names that no later cell can change."""
    kept = {name: value for name, value in names.items() if not name.startswith("_")}
    kept["__builtins__"] = dict(builtins)
    for name, value in list(kept.items()):
        if type(value) is FunctionType and value.__globals__ is names:
            kept[name] = with_names(value, kept)
    return kept


def with_names(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    made = FunctionType(
        function.__code__,
        names,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


def compiled(code: str, parameters: list[str]) -> Any:
    """The code of a function `question(*parameters)`, which returns the value of the last of these
    statements. Raises SyntaxError."""
    tree = ast.parse(code, NAME)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise SyntaxError("the last statement is not an expression")
    tree.body[-1] = ast.copy_location(ast.Return(tree.body[-1].value), tree.body[-1])
    module = ast.parse(f"def question({', '.join(parameters)}): pass", NAME)
    module.body[0].body = tree.body
    return compile(ast.fix_missing_locations(module), NAME, "exec")


def names_in(code: str) -> set[str]:
    return {
        node.id
        for node in ast.walk(ast.parse(code, NAME))
        if isinstance(node, ast.Name)
    }


def answer_to(code: str, inputs: Mapping[str, Any], names: dict[str, Any]) -> Any:
    """Run a question with these `inputs`, and `names` around it; the value of its last
    expression."""
    program = compiled(code, sorted(inputs))
    made: dict[str, Any] = {}
    exec(program, names, made)
    return made["question"](**inputs)
