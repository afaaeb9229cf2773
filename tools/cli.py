"""The commands behind the Makefile: `python -m tools COMMAND`."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tools.book.git import untracked
from tools.errors import BookError, NoGpu
from tools.files import NO_ROOM, cannot_write
from tools.root import ROOT
from tools.site.site import SITE, is_current, site_builder

# What a command needs is imported within it: `make book` with nothing stale needs next to nothing.


def book(arguments: argparse.Namespace) -> None:
    """Execute what is stale on the runners that every machine has, then build the site."""
    if is_current(ROOT):
        print("nothing stale: neither outputs nor site")
    else:
        refresh()
    try:
        for path in untracked("outputs", ROOT):
            print(f"note: {path}: git does not track it; 'git add {path}'")
    except BookError as error:  # the site stands all the same
        print(f"note: {error}")
    print(f"site: {ROOT / SITE / 'index.html'}")


def refresh() -> None:
    """Execute what is stale, carry over what no key covers, and build the site."""
    from tools.book.book import Book
    from tools.record.execute import execute, one_at_a_time
    from tools.record.record import stale_runs, sync

    with one_at_a_time(ROOT), site_builder(ROOT) as build:
        if is_current(ROOT):  # the command that this one waited for has done it
            return
        book = Book(ROOT)
        for path in book.strays():
            print(f"note: {path}.ipynb: no chapter; add 'file: {path}' to _toc.yml, or remove it")
        execute(stale_runs(book), book)
        sync(Book(ROOT))
        build()


def record(arguments: argparse.Namespace) -> None:
    """Execute chapters on runners, stale or not: all of them, or those that are named."""
    from tools.book.book import Book
    from tools.record.execute import one_at_a_time
    from tools.record.record import record

    runners = arguments.runners or given("RUNNER")
    if not runners:
        raise BookError("Makefile: record needs a runner; name one: 'make record RUNNER=cpu'")
    chapters = arguments.chapters or [*given("CHAPTER"), *given("CHAPTERS")]
    with one_at_a_time(ROOT):
        record(runners, chapters, Book(ROOT))


def serve(arguments: argparse.Namespace) -> None:
    """Show the site on this machine, on PORT or 8000."""
    from tools.serve import serve

    serve(ROOT / SITE, os.environ.get("PORT") or "8000")


def compare(arguments: argparse.Namespace) -> None:
    """Execute the chapters on this machine's GPUs, and compare with what is recorded."""
    from tools.book.book import Book
    from tools.record.compare import compare
    from tools.record.execute import one_at_a_time

    try:
        with one_at_a_time(ROOT):
            compare(Book(ROOT))
    except NoGpu as reason:
        if not arguments.if_any:
            raise
        print(f"gpu: nothing executed, nothing compared: {reason}")


def test(arguments: argparse.Namespace) -> None:
    """Run the stages of `make test`: all of them, or those that are named."""
    from tools.stages import run_stages

    words = arguments.stages or os.environ.get("STAGE", "").split()
    run_stages(words, full=os.environ.get("FULL", "") not in ("", "0"))


def clear(arguments: argparse.Namespace) -> None:
    """Take outputs and execution counts out of the chapters."""
    from tools.book.chapters import clear_outputs

    for name in clear_outputs(ROOT):
        print(f"notebooks/{name}.ipynb: outputs cleared")


def figures(arguments: argparse.Namespace) -> None:
    """Draw the figures that the chapters carry afresh from img/."""
    from tools.book.book import Book
    from tools.book.figures import embed_figures

    for path in embed_figures(Book(ROOT).chapters.values(), ROOT):
        print(f"{path}: figures drawn")


def rules(arguments: argparse.Namespace) -> None:
    """Name every place where a chapter or a page breaks a rule of this book, a line each."""
    from tools.book.book import Book
    from tools.rules.rules import broken_rules, dead_links

    book = Book(ROOT)
    broken = []
    for chapter in book.chapters.values():
        broken += broken_rules(chapter, book.recordings_of(chapter), ROOT)
    for name in book.documents:
        path = ROOT / f"{name}.md"
        if path.is_file():
            dead = dead_links(path.read_text(encoding="utf-8"), path.parent)
            broken += [f"{name}.md: the link '{link}' leads nowhere" for link in dead]
    if broken:
        raise BookError("\n".join(["rules of CONTRIBUTING.md are broken", *broken]))
    print(f"rules: {len(book.chapters)} chapters keep them")


def links(arguments: argparse.Namespace) -> None:
    """Name the repository in every link, and write the chapters' rows and set-up cells."""
    from tools.book.book import Book
    from tools.book.links import write_links

    book = Book(ROOT)
    slug, branch, hub = arguments.repository, arguments.branch, arguments.hub
    changed = write_links(book, book.repository.changed(slug, branch, hub))
    print("\n".join(f"{path}: written" for path in changed) or "links: nothing to change")


def chapter(arguments: argparse.Namespace) -> None:
    """Make a new chapter from a template that keeps every rule."""
    from tools.book.book import Book
    from tools.book.links import write_links
    from tools.book.new_chapter import make_chapter

    path = make_chapter(arguments.name, Book(ROOT))
    write_links(Book(ROOT), Book(ROOT).repository)  # the table in README.md has a row for it
    print(f"{path}: made, and listed in _toc.yml; open it with 'make lab'")


def lab(arguments: argparse.Namespace) -> None:
    """Open the chapters in JupyterLab, with the runners at hand."""
    from tools.lab import open_lab

    open_lab(ROOT)


def pins(arguments: argparse.Namespace) -> None:
    """Compile requirements.txt from requirements.in."""
    from tools.book.pins import compile_pins

    compile_pins(arguments.upgrade, ROOT)


def bench(arguments: argparse.Namespace) -> None:
    """Measure what the status page reports."""
    from tools.bench import measure

    measure(arguments.groups, ROOT)


def release(arguments: argparse.Namespace) -> None:
    """Verify the masters, and write their editions for a class, or those of the book."""
    from tools.book.book import Book
    from tools.exercises.release import release
    from tools.grade.command import engine_for
    from tools.grade.store import code_digest

    masters, out, chapter = arguments.masters, arguments.out, arguments.chapter
    engine = engine_for(None, None)
    for line in release(Book(ROOT), engine, code_digest, key(), masters, out, chapter):
        print(line)


def grade(arguments: argparse.Namespace) -> None:
    """Grade what students handed in, as it was downloaded."""
    from tools.grade.command import grade_class

    grade_class(
        arguments.submissions,
        key(),
        arguments.masters,
        arguments.workers,
        arguments.dask,
        arguments.out,
        arguments.source,
    )


def handout(arguments: argparse.Namespace) -> None:
    """Print links to a repository that holds the student edition."""
    from tools.book.repository import make_repository
    from tools.exercises.variants import draws_of
    from tools.grade.exchange.handout import handout

    folder = arguments.out or ROOT / "_build" / "release" / draws_of(key()).fingerprint
    slug, branch, hub = arguments.repository, arguments.branch, arguments.hub
    print(handout(folder, make_repository(slug or "", branch or "main", hub or "none")))


def fill(arguments: argparse.Namespace) -> None:
    """Fill grades into an export of the instructor's own gradebook."""
    from tools.grade.exchange.gradebooks import fill_export

    export = asked(arguments.export, "EXPORT: name the gradebook that was exported, a CSV")
    grades = asked(arguments.grades, "GRADES: name the folder that grade wrote: --grades FOLDER")
    fill_export(export, grades, arguments.column, arguments.scale)


def gradescope(arguments: argparse.Namespace) -> None:
    """Build the autograder of a chapter for Gradescope."""
    from tools.grade.exchange.gradescope import make_autograder

    masters = arguments.masters or ROOT / "masters"
    chapter = asked(arguments.chapter, CHAPTER)
    print(f"written: {make_autograder(chapter, key(), masters)}")


def example(arguments: argparse.Namespace) -> None:
    """Invent a class of five, to try grading on."""
    from tools.book.book import Book
    from tools.grade.example import write_example

    chapter = asked(arguments.chapter, CHAPTER)
    for path in write_example(chapter, key(), arguments.masters, Book(ROOT)):
        print(f"written: {path}")


def slides(arguments: argparse.Namespace) -> None:
    """Draw a deck of slides for each chapter, of its page."""
    from tools.book.book import Book
    from tools.site.slides import write_decks

    if not is_current(ROOT):
        refresh()
    print(f"slides: {write_decks(Book(ROOT), ROOT / SITE, ROOT / '_build' / 'slides')}")


def given(name: str) -> list[str]:
    """The words that `make` was given for a name."""
    return os.environ.get(name, "").split()


CHAPTER = "CHAPTER: name the chapter: computing-devices"


def key() -> str | None:
    """The key of a class; from the environment, so that no list of processes shows it."""
    return os.environ.get("CLASS")


def asked(value: Any, words: str) -> Any:
    """An argument that a command cannot do without. Raises BookError."""
    if value is None:
        raise BookError(words)
    return value


def folder(text: str) -> Path:
    return Path(text).expanduser()


def option(command: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """An argument that `make` hands on in the environment, where no shell reads it again."""
    default = os.environ.get(name.removeprefix("--").upper()) or None
    command.add_argument(name, default=default, **more)


COMMANDS = (
    *(book, test, serve, record, compare, chapter, lab, clear),
    *(figures, rules, links, pins, bench),
    *(release, handout, example, grade, fill, gradescope, slides),
)


def read_arguments() -> argparse.Namespace:
    """The command and its arguments."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function in COMMANDS:
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(function=function)
        if function is test:
            help = "run the stages whose names hold this"
            command.add_argument("stages", nargs="*", metavar="STAGE", help=help)
        if function is record:
            command.add_argument("runners", nargs="*", metavar="RUNNER")
            command.add_argument("--chapters", nargs="*", default=[], metavar="NAME")
        if function is pins:
            command.add_argument("upgrade", nargs="*", metavar="PACKAGE", help="to its newest")
        if function is bench:
            command.add_argument("groups", nargs="*", metavar="GROUP", help="of figures; else all")
        if function is chapter:
            command.add_argument("name", nargs="?", default="")
        if function in (links, handout):
            command.add_argument("--repository", metavar="OWNER/NAME")
            command.add_argument("--branch")
            command.add_argument("--hub", help="a JupyterHub with nbgitpuller, or 'none'")
        if function in (release, grade):
            option(command, "--masters", type=folder, help="a folder; else the book's own")
            option(command, "--out", type=folder, help="the folder to write")
        if function is release:
            option(command, "--chapter", help="one only; else all")
        if function is grade:
            option(command, "submissions", nargs="?", type=folder, help="a folder or a zip")
            option(command, "--workers", help="processes; else one a core")
            option(command, "--dask", metavar="ADDRESS", help="of a scheduler")
            option(command, "--source", help="where they were downloaded, if it is not seen")
        if function is handout:
            command.add_argument("--out", type=folder, help="the folder of the release")
        if function is fill:
            command.add_argument("export", nargs="?", type=folder, help="the gradebook, a CSV")
            command.add_argument("--grades", type=folder, help="what grade wrote")
            command.add_argument("--column", help="the one to fill in")
            command.add_argument("--scale", action="store_true", help="to the export's maximum")
        if function in (example, gradescope):
            command.add_argument("chapter", nargs="?")
            command.add_argument("--masters", type=folder, help="a folder; else the book's own")
        if function is compare:
            help = "without a GPU, say so and succeed"
            command.add_argument("--if-any", action="store_true", help=help)
    return parser.parse_args()


def main() -> int:
    """Run one command; a fault in the input is one line, with exit code 1."""
    arguments = read_arguments()
    try:
        arguments.function(arguments)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:  # a PYTHON that is not .venv may lack some
        print(
            f"error: {sys.executable}: lacks {error.name}; install it there "
            "(requirements.txt has the pins; with no network, from wheels)",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        print(f"error: {cannot_write(Path(error.filename or '.'), ROOT, error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupt:
        default = "interrupted: what was finished stays, nothing is half-written"
        print(f"\n{str(interrupt) or default}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
