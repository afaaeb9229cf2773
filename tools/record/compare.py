"""Compare the GPUs of the machine at hand with what was recorded on cards of their model."""

import subprocess
import sys

from tools.book.book import Book
from tools.book.runners import GPU
from tools.errors import BookError
from tools.record.cards import card_runs, find_cards
from tools.record.execute import execute
from tools.record.provenance import versions


def compare(book: Book) -> None:
    """Execute every chapter on this machine's GPUs; raises NoGpu if there is none. Chapters that
    were recorded on such a card are compared by nbval, output by output; of the others, and of
    those that changed since, every cell must run, as a line says."""
    runner = book.runner(GPU)
    card = find_cards(runner)
    chapters = book.chapters_of(runner)
    recorded = (book.recording(card["folder"], chapter.name) for chapter in chapters)
    good = [made for made in recorded if made and not made.stale_because(book.pins)]
    others = [
        chapter
        for chapter in chapters
        if chapter not in [made.chapter for made in good]
    ]
    if good:
        versions(("pytest", "nbval"))
    if others:
        names = ", ".join(chapter.name for chapter in others)
        now = f"on {card['label']} of {names} as they are now"
        print(
            f"gpu: nothing recorded {now}: every cell must run, nothing is compared",
            flush=True,
        )
        execute(card_runs(others, runner, card), book, keep=False)
    if good:
        options = [
            "--nbval",
            "--nbval-kernel-name",
            GPU,
            "--nbval-sanitize-with",
            runner.sanitize,
        ]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        paths = [recording.where for recording in good]
        if subprocess.run([*command, *paths], cwd=book.root).returncode:
            raise BookError(
                f"outputs/{card['folder']}: this machine's GPUs print something else"
            )
