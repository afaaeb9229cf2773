"""Commands of `python -m tools`: how a function becomes one, and how one is run."""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.errors import BookError
from tools.files import NO_ROOM, ROOT, cannot_write


class Parser(argparse.ArgumentParser):
    """Says in one line what it cannot take, as every other fault is said."""

    def error(self, message: str) -> None:
        raise BookError(self.prog, message, f"see '{self.prog} --help'")


PARSER = Parser(prog="python -m tools", description="The commands of this book.")
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")
Folder = Path | None


@dataclass(frozen=True)
class Argument:
    """An argument of a command; `options` are those of argparse."""

    name: str
    options: dict[str, Any]
    needed: bool

    @property
    def parameter(self) -> str:
        """The parameter of the command's function that takes its value."""
        return self.name.removeprefix("--").replace("-", "_")

    def check(self, value: object) -> None:
        """Raise BookError if it is needed and has no value."""
        if self.needed and value is None:
            raise BookError(self.parameter.upper(), f"name {self.options['help']}")


def argument(
    name: str, variables: str = "", needed: bool = False, **options: Any
) -> Argument:
    """Describe an argument of a command.

    Where it is left out, the environment `variables` stand in for it: `make grade OUT=folder`
    sets OUT.
    """
    values = [os.environ.get(variable, "") for variable in variables.split()]
    value = " ".join(values)
    if options.get("nargs") == "*":
        options["default"] = value.split()
    else:
        options["default"] = value or None
    # argparse itself would not know of the variables: `run_command` checks it.
    if needed and not name.startswith("-"):
        options["nargs"] = "?"
    return Argument(name, options, needed)


def command(*arguments: Argument) -> Callable:
    """Make a function a command, which its docstring explains, with these arguments."""

    def register(function: Callable) -> Callable:
        parser = COMMANDS.add_parser(function.__name__, help=function.__doc__)
        parser.set_defaults(command=function, arguments=arguments)
        for argument in arguments:
            parser.add_argument(argument.name, **argument.options)
        return function

    return register


def folder(text: str) -> Path:
    return Path(text).expanduser()


def the_book() -> Any:
    # Imported here, as commands that need no book are to start quickly.
    from tools.book.book import Book

    return Book(ROOT)


def main() -> int:
    """Run one command; a fault in the input is one line, with exit code 1."""
    try:
        run_command(vars(PARSER.parse_args()))
        return 0
    except BookError as error:
        fault = str(error)
    except ModuleNotFoundError as error:  # a PYTHON that is not .venv may lack some
        advice = "install it there (requirements.txt has the pins; with no network, from wheels)"
        fault = f"{sys.executable}: lacks {error.name}; {advice}"
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        fault = str(cannot_write(Path(error.filename or "."), ROOT, error))
    except KeyboardInterrupt as interrupt:
        default = "interrupted: what was finished stays, nothing is half-written"
        print(f"\n{str(interrupt) or default}", file=sys.stderr)
        return 130
    print(f"error: {fault}", file=sys.stderr)
    return 1


def run_command(values: dict[str, Any]) -> None:
    """Call the function of a command with the values of its arguments."""
    function = values.pop("command")
    for argument in values.pop("arguments"):
        argument.check(values[argument.parameter])
    function(**values)
