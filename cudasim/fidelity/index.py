"""The list of the programs."""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Program:
    """A program, with the number of GPUs that it needs and the hash of its code."""

    name: str
    run: Callable[[], Any]
    gpus: int
    code: str


def programs() -> dict[str, Program]:
    """Return every program by its name, `file.function`."""
    listed = {}
    for path in sorted((HERE / "programs").glob("[a-z]*.py")):
        module = import_module(f"fidelity.programs.{path.stem}")
        for name, function in vars(module).items():
            # The functions that a file imports are not programs.
            if inspect.isfunction(function) and function.__module__ == module.__name__:
                program = _program(f"{path.stem}.{name}", function)
                listed[program.name] = program
    return listed


def _program(name: str, function: Callable[[], Any]) -> Program:
    helpers = (HERE / "helpers.py").read_text(encoding="utf-8")
    code = helpers + inspect.getsource(function)
    digest = hashlib.sha256(code.encode()).hexdigest()[:16]
    return Program(name, function, getattr(function, "gpus", 1), digest)
