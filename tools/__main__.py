"""The commands behind the Makefile: `python -m tools COMMAND`."""

import argparse
import sys

from tools.environment import SetupError
from tools.errors import BookError, NoGpu


def book(arguments: argparse.Namespace) -> None:
    """Execute what is stale on the runners that every machine has, then build the site."""
    from tools.page.site import build_site
    from tools.run.recordings import recorded_runners, sync_outputs
    from tools.run.runners import local_runners

    for runner in local_runners():
        refresh(runner)
    for runner in recorded_runners():
        sync_outputs(runner)
    build_site()


def refresh(runner: str) -> None:
    """Execute the chapters that are stale on `runner`."""
    from tools.run.recordings import stale_chapters

    if stale := stale_chapters(runner):
        from tools.run import execute

        print(f"{runner}: executing {', '.join(stale)}", flush=True)
        execute.record(stale, runner)
    else:
        print(f"{runner}: nothing stale", flush=True)


def record(arguments: argparse.Namespace) -> None:
    """Execute chapters on a runner, stale or not: all of them, or those that are named."""
    from tools.run import execute
    from tools.run.runners import GPU, runner_chapters

    if arguments.runner is None:
        raise BookError("Makefile: record needs a runner; name one: 'make record RUNNER=cpu'")
    known = runner_chapters(arguments.runner)
    for name in arguments.chapters:
        if name not in known:
            raise BookError(
                f"notebooks/{name}.ipynb: no chapter of {arguments.runner}; name one of {known}"
            )
    again = bool(arguments.chapters) or arguments.runner != GPU
    execute.record(arguments.chapters or known, arguments.runner, again=again)


def compare(arguments: argparse.Namespace) -> None:
    """Execute the chapters on this machine's GPUs, and compare with what is recorded."""
    from tools.run.compare import compare

    try:
        compare()
    except NoGpu as reason:
        if not arguments.if_any:
            raise
        print(f"gpu: nothing executed, nothing compared: {reason}")


def clear(arguments: argparse.Namespace) -> None:
    """Take outputs and execution counts out of the chapters."""
    from tools.source.chapters import clear_outputs

    for name in clear_outputs():
        print(f"notebooks/{name}.ipynb: outputs cleared")


def figures(arguments: argparse.Namespace) -> None:
    """Draw the figures that the chapters carry afresh from img/."""
    from tools.source.figures import embed_figures

    for name in embed_figures():
        print(f"notebooks/{name}.ipynb: figures drawn")


def fonts(arguments: argparse.Namespace) -> None:
    """Cut the site's fonts afresh from the pinned npm packages."""
    from tools.page.fonts import make_fonts

    print(f"fonts: {make_fonts()}")


def links(arguments: argparse.Namespace) -> None:
    """Name the repository in every link, and write the chapters' rows and set-up cells."""
    from tools.source.links import set_links

    changed = set_links(arguments.repository, arguments.branch, arguments.hub)
    print("\n".join(f"{name}: written" for name in changed) or "links: nothing to change")


def bench(arguments: argparse.Namespace) -> None:
    """Measure what the status page reports."""
    from tools.bench import measure

    measure()


def survey(arguments: argparse.Namespace) -> None:
    """Survey the simulator against PyTorch's own databases, for the page on it."""
    from tools.survey import record_survey

    record_survey()


def main() -> int:
    """Run one command; a fault in the input is told in one line, with exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, function in {
        "book": book,
        "record": record,
        "compare": compare,
        "clear": clear,
        "figures": figures,
        "fonts": fonts,
        "links": links,
        "bench": bench,
        "survey": survey,
    }.items():
        command = commands.add_parser(name, help=function.__doc__)
        command.set_defaults(function=function)
        if function is record:
            command.add_argument("runner", nargs="?")
            command.add_argument("chapters", nargs="*")
        if function is links:
            command.add_argument("--repository", metavar="OWNER/NAME")
            command.add_argument("--branch")
            command.add_argument("--hub", help="a JupyterHub with nbgitpuller, or 'none'")
        if function is compare:
            help = "without a GPU, say so and succeed"
            command.add_argument("--if-any", action="store_true", help=help)
    arguments = parser.parse_args()
    try:
        arguments.function(arguments)
    except (BookError, SetupError) as error:
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
        print("\ninterrupted: what was finished is kept, nothing is half-written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
