"""Commands of `python -m tools`: how a function becomes one, and how one is run."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.errors import BookError
from tools.files import NO_ROOM, cannot_write
from tools.root import ROOT


class Parser(argparse.ArgumentParser):
    """Says in one line what it cannot take, as every other fault is said."""

    def error(self, message: str) -> None:
        raise BookError(f"{self.prog}: {message}; see '{self.prog} --help'")


PARSER = Parser(prog="python -m tools", description="The commands of this book.")
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")
Argument = tuple[str, dict[str, Any]]
Folder = Path | None


def command(*arguments: Argument) -> Callable:
    """Make a function a command, which its docstring explains, with these arguments."""

    def register(function: Callable) -> Callable:
        parser = COMMANDS.add_parser(function.__name__, help=function.__doc__)
        parser.set_defaults(command=function)
        for name, options in arguments:
            parser.add_argument(name, **options)
        return function

    return register


def argument(
    name: str, make: str = "", needed: bool = False, **options: Any
) -> Argument:
    """Describe an argument of a command.

    The variables of `make` stand in for it where it is left out. Where a `needed` one has
    no value, its default is the error that `main` raises.
    """
    variables = [os.environ.get(variable, "") for variable in make.split()]
    value = " ".join(variables)
    default: Any = value or None
    if options.get("nargs") == "*":
        default = value.split()
    if needed and not value:
        variable = name.removeprefix("--").upper()
        default = BookError(f"{variable}: name {options['help']}")
    if needed and not name.startswith("-"):
        options["nargs"] = "?"
    return name, options | {"default": default}


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


def run_command(arguments: dict[str, Any]) -> None:
    """Call the function of a command with its arguments, unless a needed one is missing."""
    function = arguments.pop("command")
    for value in arguments.values():
        if isinstance(value, BookError):
            raise value
    function(**arguments)
