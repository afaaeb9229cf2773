"""The status page's tables: what was executed where, and what was measured.

They are drawn from the provenance in outputs/, and from book/bench.json.
"""

import json
from pathlib import Path

from tools.book.book import Book
from tools.book.notebooks import code_cells, tags
from tools.files import read_text, written_by
from tools.site.table import table

BENCH = "book/bench.json"
COMMAND = "python -m tools bench"  # which writes it
NOT_COMPARED = "nbval-ignore-output"  # tag of a cell whose output differs by machine


def chapters_table(book: Book) -> list[str]:
    """The lines of a Markdown table: one row for each recording."""
    rows = [
        [
            f"[](../notebooks/{name}.ipynb)",
            recording.label,
            recording.provenance["date"],
            f"{recording.provenance['seconds']:.1f}",
            sum(NOT_COMPARED not in tags(cell) for cell in code_cells(recording.notebook)),
            ", ".join(recording.waiting) or "none",
            recording.provenance["hardware"],
            recording.runner.times or "measured",
            recording.provenance["python"],
            ", ".join(recording.software),
        ]
        for recordings in book.recordings.values()
        for name, recording in recordings.items()
    ]
    if not rows:
        return ["No outputs recorded yet: run `make book`."]
    head = ["Chapter", "Runner", "Date", "Seconds", "Cells compared", "Cells waiting"]
    lines = table([*head, "Hardware", "Times", "Python", "Software"], rows, numbers=(3, 4))
    if set(book.recordings) <= set(book.runners):
        lines += ["", "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."]
    return lines


def figures_table(book: Book) -> list[str]:
    """The lines of a Markdown table for each group of figures, and of where it was measured.

    Raises BookError if book/bench.json is there but is not what COMMAND writes.
    """
    lines = []
    with written_by(COMMAND, BENCH, "remove it and run it again"):
        for group in read_bench(book.root).values():
            rows = [
                [of["what"], f"{of['value']} {of['unit']}", of["aim"], f"`{of['command']}`"]
                for of in group["figures"]
            ]
            lines += [*table(["What", "Measured", "Aim", "Command"], rows, numbers=(1,)), ""]
            lines += [f"Measured on {group['date']}, on {group['hardware']}.", ""]
    return lines[:-1] or [f"No figures recorded yet: run `{COMMAND}`."]


def read_bench(root: Path) -> dict[str, dict]:
    """What COMMAND wrote, by group; {} if it never ran. Raises ValueError for another form."""
    path = root / BENCH
    return json.loads(read_text(path, root)) if path.is_file() else {}
