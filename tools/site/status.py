"""Tables of facts, in Markdown: what was executed where, and how many exercises there are."""

from collections.abc import Iterable, Mapping

from tools.book.book import Book
from tools.book.grammar import EXERCISE, NOT_COMPARED
from tools.book.notebooks import code_cells, tags
from tools.book.recordings import Recording

# The columns of each table with their alignment, which is that of Markdown.
LEFT, RIGHT = ":--", "--:"
RECORDING_COLUMNS = {
    "Chapter": LEFT,
    "Runner": LEFT,
    "Date": LEFT,
    "Seconds": RIGHT,
    "Cells compared": RIGHT,
    "Cells waiting": LEFT,
    "Hardware": LEFT,
    "Times": LEFT,
    "Python": LEFT,
    "Software": LEFT,
}
EXERCISE_COLUMNS = {"Chapter": LEFT, "Exercises": RIGHT}


def table(columns: Mapping[str, str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = []
    for cells in (columns.keys(), columns.values(), *rows):
        line = " | ".join(cells)
        lines.append(f"| {line} |")
    return lines


def chapters_table(book: Book) -> list[str]:
    """Return the table of all recordings, by the provenance in `outputs/`."""
    rows = [recording_row(recording) for recording in book.recordings]
    lines = table(RECORDING_COLUMNS, rows)
    if not any(recording.runner.is_real_gpu for recording in book.recordings):
        note = "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."
        lines += ["", note]
    return lines


def recording_row(recording: Recording) -> list[str]:
    provenance = recording.provenance
    cells = code_cells(recording.notebook)
    compared = [cell for cell in cells if NOT_COMPARED not in tags(cell)]
    outdated = ", ".join(recording.outdated_ids)
    return [
        chapter_link(recording.chapter.page_name),
        recording.label,
        provenance.date,
        f"{provenance.seconds:.1f}",
        str(len(compared)),
        outdated or "none",
        provenance.hardware,
        recording.runner.clock_label or "measured",
        provenance.python,
        ", ".join(recording.software),
    ]


def chapter_link(name: str) -> str:
    """Return a link whose text Sphinx fills in: the title of the chapter."""
    return f"[](../notebooks/{name}.ipynb)"


def exercises_table(book: Book) -> list[str]:
    """Return how many exercises each chapter has; `make release` writes them there."""
    rows = []
    total = 0
    for name, chapter in book.pages.items():
        ids = [cell.id for cell in chapter.notebook.cells]
        count = sum(id.startswith(EXERCISE) for id in ids)
        if count:
            rows.append([chapter_link(name), str(count)])
        if not chapter.holds_puzzles:
            total += count
    rows.append(["All chapters, without the puzzles", str(total)])
    return table(EXERCISE_COLUMNS, rows)
