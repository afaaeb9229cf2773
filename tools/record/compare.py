"""Compare the GPUs of the machine at hand with what was recorded on cards of their model."""

import subprocess
import sys

from tools.book.book import Book
from tools.book.recordings import Recording
from tools.book.runners import GPU
from tools.errors import BookError
from tools.record.cards import card_runs, find_cards
from tools.record.execute import execute
from tools.record.provenance import versions


def compare(book: Book) -> None:
    """Execute every chapter on this machine's GPUs; raises NoGpu if there is none.

    Chapters that were recorded on such a card are compared by nbval, output by output. Of
    the others, and of those that changed since, every cell must run, as a line says.
    """
    runner = book.runner(GPU)
    cards = find_cards(runner)
    recorded, others = [], []
    for chapter in book.chapters_of(runner):
        recording = book.recording(cards.folder, chapter.name)
        if recording and not recording.stale_because(book.pins):
            recorded.append(recording)
        else:
            others.append(chapter)
    if recorded:
        versions(("pytest", "nbval"))

    if others:
        names = ", ".join(chapter.name for chapter in others)
        missing = f"nothing recorded on {cards.label} of {names} as they are now"
        print(f"gpu: {missing}: every cell must run, nothing is compared", flush=True)
        execute(card_runs(others, runner, cards), book, keep=False)
    if recorded:
        _compare_by_nbval(recorded, cards.folder, book)


def _compare_by_nbval(recordings: list[Recording], folder: str, book: Book) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval"]
    command += ["--nbval-kernel-name", GPU]
    command += ["--nbval-sanitize-with", book.runner(GPU).sanitize]
    command += [recording.where for recording in recordings]
    if subprocess.run(command, cwd=book.root).returncode != 0:
        raise BookError(f"outputs/{folder}", "this machine's GPUs print something else")
