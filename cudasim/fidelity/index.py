"""The programs, as their sources tell: their names, what they need, and the hash of their code.

Only Python's own library is imported, so that a page of the book can read the list.
"""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers"  # of real GPUs, a file for each model


@dataclass(frozen=True)
class Program:
    """What one program needs, and the hash by which a change of its code is noticed."""

    gpus: int  # at least so many
    fork: bool  # whether it needs a system that can fork
    code: str


def programs(folder: Path = HERE) -> dict[str, Program]:
    """Every program of `folder`, by its name: the file's and the function's."""
    helpers = _helpers(folder / "asking.py")
    found = {}
    for path in sorted((folder / "programs").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body
        constants = [
            _source(text, node) for node in body if isinstance(node, ast.Assign)
        ]
        for node in body:
            if isinstance(node, ast.FunctionDef):
                gpus, fork = _needs(node)
                used = {
                    each.id for each in ast.walk(node) if isinstance(each, ast.Name)
                }
                called = [source for name, source in helpers.items() if name in used]
                code = "\n".join([_source(text, node), *constants, *called])
                digest = hashlib.sha256(code.encode()).hexdigest()[:16]
                found[f"{path.stem}.{node.name}"] = Program(gpus, fork, digest)
    return found


def _helpers(path: Path) -> dict[str, str]:
    """The source of each function that programs may call."""
    text = path.read_text(encoding="utf-8")
    nodes = ast.parse(text).body
    return {
        node.name: _source(text, node)
        for node in nodes
        if isinstance(node, ast.FunctionDef)
    }


def _source(text: str, node: ast.AST) -> str:
    """The lines of `node`, its decorators included."""
    first = min(
        [node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]
    )
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _needs(node: ast.FunctionDef) -> tuple[int, bool]:
    """What `@gpus(number, fork=...)` says; one GPU and no fork where it is not there."""
    for each in node.decorator_list:
        options = {
            option.arg: ast.literal_eval(option.value) for option in each.keywords
        }
        return ast.literal_eval(each.args[0]), options.get("fork", False)
    return 1, False
