"""What came of PyTorch's own tests of CUDA, as tables for the page on the simulation."""

import json

from tools.book.book import Book
from tools.files import read_text, written_by
from tools.site.table import table

CONFORMANCE = "book/conformance.json"  # what 'make conformance' writes


def conformance_tables(book: Book) -> list[str]:
    """The lines of two Markdown tables: a row for each file, and the reasons for what fails.

    Raises BookError if book/conformance.json is there but is not what `make conformance` writes.
    """
    path = book.root / CONFORMANCE
    if not path.is_file():
        return ["No conformance recorded yet: run `make conformance`."]
    with written_by("make conformance", CONFORMANCE):
        found = json.loads(read_text(path, book.root))
        kept = ("total", "passed", "failed", "not run", "skipped")
        rows = [[each["file"], *(each[name] for name in kept)] for each in found["files"]]
        reasons = [
            [each["file"], each["tests"], each["kind"], each["reason"]] for each in found["reasons"]
        ]
        measured = (
            f"`make conformance`, {found['date']}, the tests of PyTorch {found['tests']} on "
            f"PyTorch {found['torch']}, Python {found['python']}, on {found['hardware']}."
        )
    heads = ["File", "Tests", "Pass", "Fail", "Not run", "Left out by the file"]
    lines = [*table(heads, rows, numbers=(1, 2, 3, 4, 5)), "", measured]
    if reasons:
        lines += ["", "Why the others do not pass:", ""]
        lines += table(["File", "Tests", "Kind", "Reason"], reasons, numbers=(1,))
    return lines
