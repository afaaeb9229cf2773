"""Tables of facts in Markdown: what was executed where, by the provenance in outputs/, and how
many exercises there are."""

from tools.book.book import Book
from tools.book.exercises import exercises
from tools.book.grammar import NOT_COMPARED
from tools.book.notebooks import code_cells, tags


def table(
    head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()
) -> list[str]:
    """The lines of a Markdown table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, rules, *cells]]


def chapters_table(book: Book) -> list[str]:
    rows = []
    for made in (
        made for recordings in book.recordings.values() for made in recordings.values()
    ):
        page, facts = f"[](../notebooks/{made.chapter.page}.ipynb)", made.provenance
        compared = sum(
            NOT_COMPARED not in tags(cell) for cell in code_cells(made.notebook)
        )
        row = [page, made.label, facts.date, f"{facts.seconds:.1f}", compared]
        row += [
            ", ".join(made.waiting) or "none",
            facts.hardware,
            made.runner.times or "measured",
        ]
        rows.append([*row, facts.python, ", ".join(made.software)])
    head = ["Chapter", "Runner", "Date", "Seconds", "Cells compared", "Cells waiting"]
    lines = table(
        [*head, "Hardware", "Times", "Python", "Software"], rows, numbers=(3, 4)
    )
    if set(book.recordings) <= set(book.runners):
        lines += [
            "",
            "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one.",
        ]
    return lines


def exercises_table(book: Book) -> list[str]:
    """How many exercises each chapter has: 'make release' writes them there from its master."""
    rows, total = [], 0
    for name, chapter in book.pages.items():
        count = len(exercises(chapter))
        if count:
            rows.append([f"[](../notebooks/{name}.ipynb)", count])
        if not chapter.holds_puzzles:
            total += count
    rows.append(["All chapters, without the puzzles", total])
    return table(["Chapter", "Exercises"], rows, numbers=(1,))
