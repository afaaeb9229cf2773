"""The commands behind the Makefile: `python -m tools COMMAND`."""

import argparse
import sys

from tools.errors import BookError, NoGpu
from tools.page.site import SITE, is_current, site_builder
from tools.source.git import untracked
from tools.source.root import ROOT

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
    from tools.run.execute import execute, one_at_a_time
    from tools.run.record import stale_runs, sync
    from tools.source.book import Book

    with one_at_a_time(ROOT), site_builder(ROOT) as build:
        book = Book(ROOT)
        for path in book.strays():
            print(f"note: {path}.ipynb: no chapter; add 'file: {path}' to _toc.yml, or remove it")
        execute(stale_runs(book), book)
        sync(Book(ROOT))
        build()


def record(arguments: argparse.Namespace) -> None:
    """Execute chapters on runners, stale or not: all of them, or those that are named."""
    from tools.run.execute import one_at_a_time
    from tools.run.record import record
    from tools.source.book import Book

    if not arguments.runners:
        raise BookError("Makefile: record needs a runner; name one: 'make record RUNNER=cpu'")
    with one_at_a_time(ROOT):
        record(arguments.runners, arguments.chapters, Book(ROOT))


def compare(arguments: argparse.Namespace) -> None:
    """Execute the chapters on this machine's GPUs, and compare with what is recorded."""
    from tools.run.compare import compare
    from tools.run.execute import one_at_a_time
    from tools.source.book import Book

    try:
        with one_at_a_time(ROOT):
            compare(Book(ROOT))
    except NoGpu as reason:
        if not arguments.if_any:
            raise
        print(f"gpu: nothing executed, nothing compared: {reason}")


def clear(arguments: argparse.Namespace) -> None:
    """Take outputs and execution counts out of the chapters."""
    from tools.source.chapters import clear_outputs

    for name in clear_outputs(ROOT):
        print(f"notebooks/{name}.ipynb: outputs cleared")


def figures(arguments: argparse.Namespace) -> None:
    """Draw the figures that the chapters carry afresh from img/."""
    from tools.source.book import Book
    from tools.source.figures import embed_figures

    for path in embed_figures(Book(ROOT).chapters.values(), ROOT):
        print(f"{path}: figures drawn")


def links(arguments: argparse.Namespace) -> None:
    """Name the repository in every link, and write the chapters' rows and set-up cells."""
    from tools.run.record import sync
    from tools.source.book import Book
    from tools.source.links import write_links

    repository = Book(ROOT).repository.changed(
        arguments.repository, arguments.branch, arguments.hub
    )
    changed = [*write_links(Book(ROOT), repository), *sync(Book(ROOT))]
    print("\n".join(f"{path}: written" for path in changed) or "links: nothing to change")


def bench(arguments: argparse.Namespace) -> None:
    """Measure what the status page reports."""
    from tools.bench import measure

    measure(ROOT)


def survey(arguments: argparse.Namespace) -> None:
    """Survey the simulator against PyTorch's own databases, for the page on it."""
    from tools.survey import record_survey

    record_survey(ROOT)


COMMANDS = (book, record, compare, clear, figures, links, bench, survey)


def read_arguments() -> argparse.Namespace:
    """The command and its arguments."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function in COMMANDS:
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(function=function)
        if function is record:
            command.add_argument("runners", nargs="*", metavar="RUNNER")
            command.add_argument("--chapters", nargs="*", default=[], metavar="NAME")
        if function is links:
            command.add_argument("--repository", metavar="OWNER/NAME")
            command.add_argument("--branch")
            command.add_argument("--hub", help="a JupyterHub with nbgitpuller, or 'none'")
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
    except KeyboardInterrupt:
        print("\ninterrupted: what was finished stays, nothing is half-written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
