"""The commands behind the Makefile: `python -m tools COMMAND`."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.errors import BookError, NoGpu
from tools.files import NO_ROOM, cannot_write
from tools.root import ROOT
from tools.site.site import SITE, build_site, is_current

# What a command needs is imported within it: `make book` with nothing stale needs next to nothing.


class Parser(argparse.ArgumentParser):
    """Says in one line what it cannot take, as every other fault is said."""

    def error(self, message: str) -> None:
        raise BookError(f"{self.prog}: {message}; see '{self.prog} --help'")


PARSER = Parser(prog="python -m tools", description=__doc__)
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


def argument(name: str, make: str = "", needed: bool = False, **options: Any) -> Argument:
    """An argument, which an error replaces where it is `needed`; variables of `make` stand in."""
    given = " ".join(os.environ.get(variable, "") for variable in make.split())
    default = given.split() if options.get("nargs") == "*" else given or None
    if needed and not given:
        default = BookError(f"{name.removeprefix('--').upper()}: name {options['help']}")
    if needed and not name.startswith("-"):
        options["nargs"] = "?"
    return name, options | {"default": default}


def folder(text: str) -> Path:
    return Path(text).expanduser()


def the_book() -> Any:
    from tools.book.book import Book

    return Book(ROOT)


def key() -> str | None:
    """The key of a class; from the environment, so that no list of processes shows it."""
    return os.environ.get("CLASS")


CHAPTER = argument("chapter", needed=True, help="the chapter: computing-devices")
MASTERS = argument("--masters", "MASTERS", type=folder, help="a folder; else the book's own")
SETS = {"type": folder, "help": "a file that sets exercises, points, due and late"}
ASSIGNMENT = argument("--assignment", "ASSIGNMENT", **SETS)
WORKERS = argument("--workers", "WORKERS", help="processes; else one for each core")
OUT = argument("--out", "OUT", type=folder, help="the folder to write")


@command()
def book() -> None:
    """Execute what is stale on the runners that every machine has, then build the site."""
    if is_current(ROOT):
        print("nothing stale: neither outputs nor site")
    else:
        refresh()
    print(f"site: {ROOT / SITE / 'index.html'}")


def refresh() -> None:
    """Execute what is stale, carry over what no key covers, and build the site."""
    from tools.languages.translations import write_editions
    from tools.record.execute import execute, one_at_a_time
    from tools.record.record import stale_runs, sync

    with one_at_a_time(ROOT):
        if is_current(ROOT):  # the command that this one waited for has done it
            return
        book = the_book()
        for path in book.strays():
            print(f"note: {path}.ipynb: no chapter; add 'file: {path}' to _toc.yml, or remove it")
        execute(stale_runs(book), book)
        book = the_book()
        sync(book)
        write_editions(book)
        build_site(ROOT)


@command(argument("stages", "STAGE", nargs="*", help="those whose names hold this; else all"))
def test(stages: list[str]) -> None:
    """Run the stages of `make test`: all of them, or those that are named."""
    from tools.stages import run_stages

    run_stages(stages, full=os.environ.get("FULL", "") not in ("", "0"))


@command(argument("port", "PORT", nargs="?"))
def serve(port: str | None) -> None:
    """Show the site on this machine, on PORT or 8000."""
    from tools.serve import serve

    serve(ROOT / SITE, port or "8000")


@command(
    argument("runners", "RUNNER", nargs="*"),
    argument("--chapters", "CHAPTER CHAPTERS", nargs="*", metavar="NAME"),
)
def record(runners: list[str], chapters: list[str]) -> None:
    """Execute chapters on runners, stale or not: all of them, or those that are named."""
    from tools.record.execute import one_at_a_time
    from tools.record.record import record

    if not runners:
        raise BookError("Makefile: record needs a runner; name one: 'make record RUNNER=cpu'")
    with one_at_a_time(ROOT):
        record(runners, chapters, the_book())


@command(argument("--if-any", action="store_true", help="without a GPU, say so and succeed"))
def compare(if_any: bool) -> None:
    """Execute the chapters on this machine's GPUs, and compare with what is recorded."""
    from tools.record.compare import compare
    from tools.record.execute import one_at_a_time

    try:
        with one_at_a_time(ROOT):
            compare(the_book())
    except NoGpu as reason:
        if not if_any:
            raise
        print(f"gpu: nothing executed, nothing compared: {reason}")


@command()
def lab() -> None:
    """Open the chapters in JupyterLab, with the runners at hand."""
    from tools.lab import open_lab

    open_lab(ROOT)


@command()
def clear() -> None:
    """Take outputs and execution counts out of the chapters."""
    from tools.book.chapters import clear_outputs

    for path in clear_outputs(ROOT):
        print(f"{path}: outputs cleared")


@command()
def figures() -> None:
    """Draw the figures that the chapters carry afresh from img/."""
    from tools.book.figures import embed_figures

    for path in embed_figures(the_book().chapters.values(), ROOT):
        print(f"{path}: figures drawn")


@command()
def rules() -> None:
    """Name every place where a chapter breaks a rule of this book, a line each."""
    from tools.rules.length import length
    from tools.rules.rules import broken_rules

    book = the_book()
    chapters = book.chapters.values()
    for chapter in chapters:
        print(f"{chapter.where}: {length(chapter)}")
    if broken := [line for chapter in chapters for line in broken_rules(chapter, book)]:
        raise BookError("\n".join(["rules of CONTRIBUTING.md are broken", *broken]))
    print(f"rules: {len(chapters)} chapters keep them")


@command()
def links() -> None:
    """Write the chapters' rows of links and set-up cells for the repository in _config.yml."""
    from tools.book.links import write_links

    changed = write_links(the_book())
    print("\n".join(f"{path}: written" for path in changed) or "links: nothing to change")


@command(argument("--check", action="store_true", help="write nothing"))
def languages(check: bool) -> None:
    """Bring the translations in step with the English, and say what is left to do."""
    from tools.languages.translations import check_languages, write_languages

    for line in (check_languages if check else write_languages)(the_book()):
        print(line)


@command(
    *(MASTERS, OUT, ASSIGNMENT, WORKERS),
    argument("--chapter", "CHAPTER", help="one only; else all"),
)
def release(
    masters: Folder,
    out: Folder,
    assignment: Folder,
    chapter: str | None,
    workers: str | None,
) -> None:
    """Verify the masters, and write their editions for a class, or those of the book."""
    from tools.exercises.assignment import choice_of
    from tools.exercises.release import release
    from tools.grade.command import engine_for
    from tools.grade.store import key_of

    engine = engine_for(workers, None)
    given = key(), masters, out, choice_of(chapter, assignment)
    for line in release(the_book(), engine, key_of, *given):
        print(line)
    if key() is None:
        print("no CLASS: this is the book's own edition, whose solutions are public")


@command(argument("folder", needed=True, type=folder, help="a new folder, not in the book"))
def masters(folder: Path) -> None:
    """Make a folder of masters of your own, for exercises that count."""
    from tools.exercises.masters import copy_masters

    if folder.resolve().is_relative_to(ROOT):
        raise BookError(f"{folder}: within the book, which is public; name a folder outside")
    copy_masters(ROOT / "masters", folder)
    print(f"written: {folder}; use it with MASTERS={folder}")


@command(
    argument("--out", type=folder, help="the folder of the release"),
    argument("--repository", metavar="OWNER/NAME"),
    argument("--branch"),
    argument("--hub", help="a JupyterHub with nbgitpuller, or 'none'"),
)
def handout(out: Folder, repository: str | None, branch: str | None, hub: str | None) -> None:
    """Print links to a repository that holds the student edition."""
    from tools.book.repository import make_repository
    from tools.exercises.release import handout
    from tools.exercises.variants import draws_of

    out = out or ROOT / "_build" / "release" / draws_of(key()).fingerprint
    print(handout(out, make_repository(repository or "", branch or "main", hub or "none")))


@command(CHAPTER, MASTERS)
def example(chapter: str, masters: Folder) -> None:
    """Invent a class of five, to try grading on."""
    from tools.grade.example import write_example

    for path in write_example(chapter, key(), masters, the_book()):
        print(f"written: {path}")


@command(
    argument("submissions", "SUBMISSIONS", True, type=folder, help="the folder or zip downloaded"),
    WORKERS,
    argument("--dask", "DASK", metavar="ADDRESS", help="of a scheduler"),
    argument("--source", "SOURCE", help="where they were downloaded, if it is not seen"),
    *(MASTERS, OUT, ASSIGNMENT),
)
def grade(submissions: Path, dask: str | None, **options: Any) -> None:
    """Grade what students handed in, as it was downloaded."""
    from tools.grade.command import grade_class

    grade_class(submissions, key(), address=dask, **options)


@command(
    argument("export", "", True, type=folder, help="the gradebook that was exported, a CSV"),
    argument(
        "--grades", "", True, type=folder, help="the folder that grade wrote: --grades FOLDER"
    ),
    argument("--column", help="the one to fill in"),
    argument("--scale", action="store_true", help="to the export's maximum"),
    argument("--chapter", help="whose grades, if there are several's"),
)
def fill(export: Path, grades: Path, column: str | None, scale: bool, chapter: str | None) -> None:
    """Fill grades into an export of the instructor's own gradebook."""
    from tools.grade.exchange.gradebooks import fill_export

    fill_export(export, grades, column, scale, chapter)


@command(argument("chapter", nargs="?", help="computing-devices"), MASTERS, ASSIGNMENT)
def gradescope(chapter: str | None, masters: Folder, assignment: Folder) -> None:
    """Build the autograder of a chapter, or of an assignment, for Gradescope."""
    from tools.exercises.assignment import choice_of
    from tools.grade.exchange.gradescope import make_autograder

    choice = choice_of(chapter, assignment)
    if choice is None:
        raise BookError("CHAPTER: name the chapter: computing-devices, or --assignment FILE")
    print(f"written: {make_autograder(choice, key(), masters or ROOT / 'masters')}")


@command()
def slides() -> None:
    """Draw a deck of slides for each chapter, of its page."""
    from tools.site.slides import write_decks

    refresh()
    print(f"slides: {write_decks(the_book(), ROOT / SITE, ROOT / '_build' / 'slides')}")


def main() -> int:
    """Run one command; a fault in the input is one line, with exit code 1."""
    try:
        given = vars(PARSER.parse_args())
        function = given.pop("command")
        for missing in (value for value in given.values() if isinstance(value, BookError)):
            raise missing
        function(**given)
        return 0
    except BookError as error:
        reason = error
    except ModuleNotFoundError as error:  # a PYTHON that is not .venv may lack some
        advice = "install it there (requirements.txt has the pins; with no network, from wheels)"
        reason = f"{sys.executable}: lacks {error.name}; {advice}"
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        reason = cannot_write(Path(error.filename or "."), ROOT, error)
    except KeyboardInterrupt as interrupt:
        default = "interrupted: what was finished stays, nothing is half-written"
        print(f"\n{str(interrupt) or default}", file=sys.stderr)
        return 130
    print(f"error: {reason}", file=sys.stderr)
    return 1
