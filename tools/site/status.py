"""Recorded facts as tables: nothing on those pages is typed.

They are drawn from the provenance in outputs/, from book/bench.json and book/survey.json.
"""

import json
from pathlib import Path

from nbformat import NotebookNode

from tools.book.book import Book
from tools.book.notebooks import code_cells, tags
from tools.errors import BookError
from tools.files import read_text, written_by
from tools.site.table import table

BENCH = "book/bench.json"  # what 'make bench' writes
SURVEY = "book/survey.json"  # what 'make survey' writes
NOT_COMPARED = "nbval-ignore-output"  # tag of a cell whose output differs by machine


def chapters_table(book: Book) -> list[str]:
    """The lines of a Markdown table: one row for each recording."""
    rows = []
    for recordings in book.recordings.values():
        for name, recording in recordings.items():
            facts = recording.provenance
            rows.append(
                [
                    f"[](../notebooks/{name}.ipynb)",
                    recording.label,
                    facts["date"],
                    f"{facts['seconds']:.1f}",
                    str(len(compared_cells(recording.notebook))),
                    ", ".join(recording.waiting) or "none",
                    facts["hardware"],
                    recording.runner.times or "measured",
                    facts["python"],
                    ", ".join(recording.software),
                ]
            )
    if not rows:
        return ["No outputs recorded yet: run `make book`."]
    head = ["Chapter", "Runner", "Date", "Seconds", "Cells compared", "Cells waiting"]
    lines = table([*head, "Hardware", "Times", "Python", "Software"], rows, numbers=(3, 4))
    if set(book.recordings) <= set(book.runners):
        lines += ["", "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."]
    return lines


def compared_cells(outputs: NotebookNode) -> list[NotebookNode]:
    """The code cells whose outputs `make test` compares."""
    return [cell for cell in code_cells(outputs) if NOT_COMPARED not in tags(cell)]


def read_bench(root: Path) -> dict[str, dict]:
    """What `make bench` wrote, by group: date, hardware and figures; {} if it never ran.

    Raises BookError if the file is there but is not what `make bench` writes.
    """
    path = root / BENCH
    if not path.is_file():
        return {}
    try:
        bench = json.loads(read_text(path, root))
        for group in bench.values():
            group["date"], group["hardware"], [_figure_row(each) for each in group["figures"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        bench = {}
    if not bench:
        raise BookError(f"{BENCH}: not what 'make bench' writes; remove it and run it again")
    return bench


def figures_table(book: Book) -> list[str]:
    """The lines of the Markdown tables of book/bench.json, and of where each was measured.

    Raises BookError if the file is there but is not what `make bench` writes.
    """
    lines = []
    for group in read_bench(book.root).values():
        rows = [_figure_row(each) for each in group["figures"]]
        measured = f"Measured on {group['date']}, on {group['hardware']}."
        lines += [*table(["What", "Measured", "Aim", "Command"], rows, numbers=(1,)), ""]
        lines += [measured, ""]
    return lines[:-1] or ["No figures recorded yet: run `make bench`."]


def _figure_row(figure: dict) -> list[str]:
    value = f"{figure['value']} {figure['unit']}"
    return [figure["what"], value, figure["aim"], f"`{figure['command']}`"]


def survey_tables(book: Book) -> list[str]:
    """The lines of two Markdown tables: the survey's figures, and its exceptions.

    Raises BookError if book/survey.json is there but is not what `make survey` writes.
    """
    path = book.root / SURVEY
    if not path.is_file():
        return ["No survey recorded yet: run `make survey`."]
    with written_by("make survey", SURVEY):
        survey = json.loads(read_text(path, book.root))
        rows = [
            [
                f"{kind}s",
                counts["total"],
                counts["passed"],
                f"{counts['percent']} %",
                counts["skipped"],
            ]
            for kind, counts in survey["summary"].items()
        ]
        exceptions = [[f"`{each['name']}`", each["reason"]] for each in survey["exceptions"]]
        measured = (
            f"`make survey`, {survey['date']}, PyTorch {survey['torch']}, "
            f"Python {survey['python']}, on {survey['hardware']}."
        )
    heads = ["What", "Surveyed", "Pass", "Share", "Left out"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4)), "", measured]
    if exceptions:
        lines += ["", "What does not pass:", "", *table(["Name", "Reason"], exceptions)]
    return lines
