"""On which Python, PyTorch and system the simulator's tests ran, as a table."""

import json

from tools.book.book import Book
from tools.files import read_text, written_by
from tools.site.table import table

SUPPORT = "book/support.json"  # what 'make support' writes
COLUMNS = {  # of the table -> of a row of the file
    "Python": "python",
    "PyTorch": "torch",
    "System": "system",
    "Passed": "passed",
    "Failed": "failed",
    "Skipped": "skipped",
    "Date": "date",
}


def support_table(book: Book) -> list[str]:
    """The lines of a Markdown table: a row for each place where the tests ran.

    Raises BookError if book/support.json is there but is not what `make support` writes.
    """
    path = book.root / SUPPORT
    if not path.is_file():
        return ["No run recorded yet: `make support` gathers them."]
    with written_by("make support", SUPPORT):
        rows = json.loads(read_text(path, book.root))["rows"]
        cells = [[row[name] for name in COLUMNS.values()] for row in rows]
    return table(list(COLUMNS), cells, numbers=(3, 4, 5))
