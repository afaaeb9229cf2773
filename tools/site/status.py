"""Tables of facts, in Markdown: what was executed where, and how many exercises there are."""

from tools.book.book import Book
from tools.book.exercises import exercises
from tools.book.grammar import NOT_COMPARED
from tools.book.notebooks import code_cells, tags
from tools.book.recordings import Recording

RECORDING_COLUMNS = [
    "Chapter",
    "Runner",
    "Date",
    "Seconds",
    "Cells compared",
    "Cells waiting",
    "Hardware",
    "Times",
    "Python",
    "Software",
]


def table(
    head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()
) -> list[str]:
    """Return the lines of a Markdown table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(head))]
    lines = [table_line(head), table_line(rules)]
    for row in rows:
        lines.append(table_line([cell.replace("|", "\\|") for cell in row]))
    return lines


def table_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def chapters_table(book: Book) -> list[str]:
    """Return the table of all recordings, by the provenance in `outputs/`."""
    rows = []
    for recordings in book.recordings.values():
        rows += [recording_row(recording) for recording in recordings.values()]
    lines = table(RECORDING_COLUMNS, rows, numbers=(3, 4))
    if set(book.recordings) <= set(book.runners):
        note = "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."
        lines += ["", note]
    return lines


def recording_row(recording: Recording) -> list[str]:
    provenance = recording.provenance
    cells = code_cells(recording.notebook)
    compared = [cell for cell in cells if NOT_COMPARED not in tags(cell)]
    return [
        f"[](../notebooks/{recording.chapter.page}.ipynb)",
        recording.label,
        provenance.date,
        f"{provenance.seconds:.1f}",
        str(len(compared)),
        ", ".join(recording.outdated_ids) or "none",
        provenance.hardware,
        recording.runner.times or "measured",
        provenance.python,
        ", ".join(recording.software),
    ]


def exercises_table(book: Book) -> list[str]:
    """Return how many exercises each chapter has; `make release` writes them there."""
    rows = []
    total = 0
    for name, chapter in book.pages.items():
        count = len(exercises(chapter))
        if count:
            rows.append([f"[](../notebooks/{name}.ipynb)", str(count)])
        if not chapter.holds_puzzles:
            total += count
    rows.append(["All chapters, without the puzzles", str(total)])
    return table(["Chapter", "Exercises"], rows, numbers=(1,))
