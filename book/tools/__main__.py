"""The commands behind the Makefile: `python -m book.tools COMMAND`."""

import argparse
import sys

from book.tools.chapters import chapter_names
from book.tools.environment import SetupError
from book.tools.errors import BookError


def book(arguments: argparse.Namespace) -> None:
    """Execute what is stale on this machine's runners, then build the site."""
    from book.tools.outputs import sync_outputs
    from book.tools.site import build_site

    for runner in ("cpu",):
        refresh(runner)
        sync_outputs(runner)
    build_site()


def refresh(runner: str) -> None:
    """Execute the chapters that are stale on `runner`."""
    from book.tools.outputs import stale_chapters

    if stale := stale_chapters(runner):
        from book.tools import execute

        print(f"{runner}: executing {', '.join(stale)}", flush=True)
        execute.record(stale, runner)
    else:
        print(f"{runner}: nothing stale", flush=True)


def record(arguments: argparse.Namespace) -> None:
    """Execute chapters on a runner, stale or not: all of them, or those that are named."""
    from book.tools import execute

    if arguments.runner is None:
        raise BookError("Makefile: record needs a runner; name one: 'make record RUNNER=cpu'")
    known = chapter_names()
    for name in arguments.chapters:
        if name not in known:
            raise BookError(f"notebooks/{name}.ipynb: no such chapter; name one of {known}")
    execute.record(arguments.chapters or known, arguments.runner)


def clear(arguments: argparse.Namespace) -> None:
    """Take outputs and execution counts out of the chapters."""
    from book.tools.chapters import clear_outputs

    for name in clear_outputs():
        print(f"notebooks/{name}.ipynb: outputs cleared")


def figures(arguments: argparse.Namespace) -> None:
    """Draw the figures that the chapters carry afresh from img/."""
    from book.tools.figures import embed_figures

    for name in embed_figures():
        print(f"notebooks/{name}.ipynb: figures drawn")


def bench(arguments: argparse.Namespace) -> None:
    """Measure what the status page reports."""
    from book.tools.bench import measure

    measure()


def survey(arguments: argparse.Namespace) -> None:
    """Survey the simulator against PyTorch's own databases, for the page on it."""
    from book.tools.survey import record_survey

    record_survey()


def main() -> int:
    """Run one command; a fault in the input is told in one line, with exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m book.tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, function in {
        "book": book,
        "record": record,
        "clear": clear,
        "figures": figures,
        "bench": bench,
        "survey": survey,
    }.items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        if function is record:
            command.add_argument("runner", nargs="?")
            command.add_argument("chapters", nargs="*")
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except (BookError, SetupError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: what was finished is kept, nothing is half-written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
