"""The commands on the book itself: executing chapters, checking them, building the site."""

import os

from tools.commands import argument, command, the_book
from tools.errors import BookError, NoGpu
from tools.files import ROOT

# What a command needs is imported within it: `make book` with nothing stale needs next to nothing.


@command()
def book() -> None:
    """Execute what is stale on all runners but real GPUs, then build the site."""
    from tools.site.site import SITE, is_current

    if is_current(ROOT):
        print("nothing stale: neither outputs nor site")
    else:
        refresh()
    print(f"site: {ROOT / SITE / 'index.html'}")


def refresh() -> None:
    """Execute what is stale, carry over what no key covers, and build the site."""
    from tools.languages.translations import write_translated_notebooks
    from tools.record.execute import execute, one_at_a_time
    from tools.record.record import prepare_runs, stale_runs, sync
    from tools.site.site import build_site, forget_build, is_current

    with one_at_a_time(ROOT):
        if is_current(ROOT):  # the command that this one waited for has done it
            return
        book = the_book()
        for path in book.strays():
            advice = f"add 'file: {path}' to _toc.yml, or remove it"
            print(f"note: {path}.ipynb: no chapter; {advice}")
        execute(prepare_runs(stale_runs(book)), book)
        book = the_book()
        sync(book)
        write_translated_notebooks(book)
        build_site(ROOT)
        if stale_runs(book):  # the next command has to try again
            forget_build(ROOT)


@command()
def clinic() -> None:
    """Measure all versions of the clinic's script, for the front page and its test."""
    from tools.record.clinic import write_measured

    write_measured(ROOT)


@command(
    argument("stages", "STAGE", nargs="*", help="those whose names hold this; else all")
)
def test(stages: list[str]) -> None:
    """Run the stages of `make test`: all of them, or those that are named."""
    from tools.stages import run_stages

    full = os.environ.get("FULL", "") not in ("", "0")
    run_stages(stages, full)


@command(argument("port", "PORT", nargs="?"))
def serve(port: str | None) -> None:
    """Show the site on this machine, on PORT or 8000."""
    from tools.serve import serve
    from tools.site.site import SITE

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
        raise BookError(
            "Makefile", "record needs a runner", "name one: 'make record RUNNER=cpu'"
        )
    with one_at_a_time(ROOT):
        record(runners, chapters, the_book())


@command(
    argument("--if-any", action="store_true", help="without a GPU, say so and succeed")
)
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
    from tools.book.length import length
    from tools.rules.rules import broken_rules

    book = the_book()
    chapters = book.chapters.values()
    for chapter in chapters:
        print(f"{chapter.where}: {length(chapter)}")
    broken = []
    for chapter in chapters:
        broken += broken_rules(chapter, book)
    if broken:
        raise BookError("\n".join(["rules of CONTRIBUTING.md are broken", *broken]))
    print(f"rules: {len(chapters)} chapters keep them")


@command()
def links() -> None:
    """Write the chapters' rows of links and setup cells for the repository in _config.yml."""
    from tools.book.links import write_links

    changed = write_links(the_book())
    for path in changed:
        print(f"{path}: written")
    if not changed:
        print("links: nothing to change")


@command(argument("--check", action="store_true", help="write nothing"))
def languages(check: bool) -> None:
    """Bring the translations in step with the English, and say what is left to do."""
    from tools.languages.translations import check_languages, write_languages

    work = check_languages if check else write_languages
    for line in work(the_book()):
        print(line)


@command()
def slides() -> None:
    """Draw a deck of slides for each chapter, of its page."""
    from tools.site.site import SITE
    from tools.site.slides import write_decks

    refresh()
    index = write_decks(the_book(), ROOT / SITE, ROOT / "_build" / "slides")
    print(f"slides: {index}")
