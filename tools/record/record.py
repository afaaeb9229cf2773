"""What has to be executed, and on what: the commands `book` and `record`."""

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.notebooks import write_changed
from tools.book.recordings import record_command
from tools.book.runners import GPU, Runner
from tools.errors import BookError, CannotRun
from tools.record.cards import card_runs, find_cards
from tools.record.execute import Run, execute
from tools.record.provenance import Cards


def stale_runs(book: Book) -> list[tuple[Run, str]]:
    """Return what is stale on the runners that need no real GPU, each with the reason."""
    stale = []
    for runner in book.portable_runners:
        for chapter in book.chapters_of(runner):
            reason = _stale_because(chapter, runner, book)
            if reason is not None:
                stale.append((Run(chapter, runner), reason))
    return stale


def _stale_because(chapter: Chapter, runner: Runner, book: Book) -> str | None:
    recording = book.recording(runner.name, chapter.name)
    if recording is None:
        return "never executed"
    return recording.stale_because(book.pins_of(runner))


def prepare_runs(stale: list[tuple[Run, str]]) -> list[Run]:
    """Make the environments of stale runs, and return those that this machine can run.

    Prints a line for each run, and one for each that has to be left.
    """
    runs = []
    for run, reason in stale:
        place = f"{run.runner.name}: {run.chapter.name}"
        print(f"{place}: {reason}", flush=True)
        try:
            run.runner.prepare()
            runs.append(run)
        except CannotRun as error:
            print(f"{place}: left as it was recorded: {error}")
    return runs


def record(names: list[str], chapters: list[str], book: Book) -> None:
    """Execute chapters, all or those named, on the runners of those `names`, stale or not.

    On real GPUs, skip chapters with a current recording from the same card, unless named.
    """
    runs = []
    for runner in [book.runner(name) for name in names]:
        chosen = _chosen_chapters(chapters, runner, book)
        if not runner.is_real_gpu:
            runner.prepare()
            runs += [Run(chapter, runner) for chapter in chosen]
            continue
        cards = find_cards(runner)
        if not chapters:
            chosen = _skip_recorded(chosen, cards, book)
        runs += card_runs(chosen, runner, cards)
    execute(runs, book)


def _chosen_chapters(names: list[str], runner: Runner, book: Book) -> list[Chapter]:
    """Return the chapters of a runner, all or those named."""
    chapters = {chapter.name: chapter for chapter in book.chapters_of(runner)}
    for name in names:
        if name not in chapters:
            known = ", ".join(chapters)
            raise BookError(
                f"notebooks/{name}.ipynb",
                f"no chapter of {runner.name}",
                f"name one of: {known}",
            )
    return [chapters[name] for name in names or chapters]


def _skip_recorded(chapters: list[Chapter], cards: Cards, book: Book) -> list[Chapter]:
    """Return the chapters without a current recording from these cards.

    Prints a line for each of the others.
    """
    unrecorded = []
    for chapter in chapters:
        recording = book.recording(cards.folder, chapter.name)
        if recording is None or recording.stale_because(book.pins):
            unrecorded.append(chapter)
            continue
        state = f"recorded on {recording.provenance.date}, left as it is"
        command = record_command(GPU, chapter.name)
        print(f"{recording.where}: {state}; to record it again: '{command}'")
    return unrecorded


def sync(book: Book) -> list[str]:
    """Carry over what no key covers: tags, setup, metadata. Returns the paths that changed."""
    pairs = [(recording, recording.synced()) for recording in book.recordings]
    return write_changed(pairs, book.root)
