"""What has to be executed, and on what: the commands `book` and `record`."""

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.notebooks import write_changed
from tools.book.recordings import record_command
from tools.book.runners import GPU
from tools.errors import BookError, CannotRun
from tools.record.cards import card_runs, find_cards
from tools.record.execute import Run, execute


def stale_runs(book: Book) -> list[Run]:
    """The chapters that are stale on the runners that every machine has; a line for each."""
    runs = []
    for runner in book.local_runners:
        for chapter in book.chapters_of(runner):
            recording = book.recording(runner.name, chapter.name)
            pins = book.pins_of(runner)
            if (
                reason := recording.stale_because(pins)
                if recording
                else "never executed"
            ):
                print(f"{runner.name}: {chapter.name}: {reason}", flush=True)
                try:
                    runner.prepare()
                    runs.append(Run(chapter, runner))
                except CannotRun as reason:
                    print(
                        f"{runner.name}: {chapter.name}: left as it was recorded: {reason}"
                    )
    return runs


def record(names: list[str], chapters: list[str], book: Book) -> None:
    """Execute chapters, all or those named, on the runners of those `names`, stale or not. On real
    GPUs, unless they are named, those that such a card has recorded as they are stay."""
    runs = []
    for runner in [book.runner(name) for name in names]:
        known = {chapter.name: chapter for chapter in book.chapters_of(runner)}
        if unknown := [name for name in chapters if name not in known]:
            fault = f"no chapter of {runner.name}; name one of {list(known)}"
            raise BookError(f"notebooks/{unknown[0]}.ipynb: {fault}")
        chosen = [known[name] for name in chapters or known]
        if runner.is_local:
            runner.prepare()
            runs += [Run(chapter, runner) for chapter in chosen]
        else:
            card = find_cards(runner)
            again = [c for c in chosen if chapters or not _is_recorded(c, card, book)]
            runs += card_runs(again, runner, card)
    execute(runs, book)


def _is_recorded(chapter: Chapter, card: dict, book: Book) -> bool:
    recording = book.recording(card["folder"], chapter.name)
    if recording is None or recording.stale_because(book.pins):
        return False
    again = f"to record it again: '{record_command(GPU, chapter.name)}'"
    print(
        f"{recording.where}: recorded on {recording.provenance.date}, left as it is; {again}"
    )
    return True


def sync(book: Book) -> list[str]:
    """Carry over what no key covers: tags, set-up, metadata. Returns the paths that changed."""
    made = (
        made for recordings in book.recordings.values() for made in recordings.values()
    )
    return write_changed(
        [(recording, recording.synced()) for recording in made], book.root
    )
