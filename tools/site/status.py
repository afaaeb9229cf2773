"""Tables of facts in Markdown: what was executed where, by the provenance in outputs/."""

from tools.book.book import Book
from tools.book.notebooks import code_cells, tags

NOT_COMPARED = "nbval-ignore-output"  # tag of a cell whose output differs by machine


def table(head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()) -> list[str]:
    """The lines of a Markdown table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, rules, *cells]]


def chapters_table(book: Book) -> list[str]:
    rows = []
    for made in (made for recordings in book.recordings.values() for made in recordings.values()):
        page, facts = f"[](../notebooks/{made.chapter.page}.ipynb)", made.provenance
        compared = sum(NOT_COMPARED not in tags(cell) for cell in code_cells(made.notebook))
        row = [page, made.label, facts.date, f"{facts.seconds:.1f}", compared]
        row += [", ".join(made.waiting) or "none", facts.hardware, made.runner.times or "measured"]
        rows.append([*row, facts.python, ", ".join(made.software)])
    head = ["Chapter", "Runner", "Date", "Seconds", "Cells compared", "Cells waiting"]
    lines = table([*head, "Hardware", "Times", "Python", "Software"], rows, numbers=(3, 4))
    if set(book.recordings) <= set(book.runners):
        lines += ["", "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."]
    return lines
