"""Compare the GPUs of the machine at hand with what was recorded on cards of their model."""

import subprocess
import sys
from pathlib import Path

from tools.book.book import Book
from tools.book.recordings import Recording
from tools.book.runners import GPU
from tools.errors import BookError
from tools.record.cards import card_runs, find_cards
from tools.record.execute import execute
from tools.record.provenance import versions


def compare(book: Book) -> None:
    """Execute every chapter on this machine's GPUs, and compare what it prints.

    Chapters that were recorded on such a card are compared by nbval, output by output; of
    the others, and of those that changed since, every cell must run, and a line says that
    nothing was compared. Raises NoGpu if there is none, BookError if a cell fails or prints
    something else.
    """
    runner = book.runner(GPU)
    card = find_cards(runner)
    good, others = [], []
    for chapter in book.chapters_of(runner):
        recording = book.recording(card["folder"], chapter.name)
        if recording and not recording.stale_because(book.pins):
            good.append(recording)
        else:
            others.append(chapter)
    if good:
        versions(("pytest", "nbval"))
    if others:
        names = ", ".join(chapter.name for chapter in others)
        print(
            f"gpu: nothing recorded on {card['label']} of {names} as they are now: every cell "
            "must run, nothing is compared",
            flush=True,
        )
        execute(card_runs(others, runner, card), book, keep=False)
    if good:
        _run_nbval(good, book.root)


def _run_nbval(recordings: list[Recording], root: Path) -> None:
    options = ["--nbval", "--nbval-kernel-name", GPU]
    options += ["--nbval-sanitize-with", recordings[0].runner.sanitize]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    paths = [recording.where for recording in recordings]
    if subprocess.run([*command, *paths], cwd=root).returncode:
        raise BookError(f"{Path(paths[0]).parent}: this machine's GPUs print something else")
