"""Tables as CSV that a spreadsheet opens without executing anything.

A spreadsheet takes a cell for a formula if it begins with one of `= + - @`, a tab or a carriage
return (https://owasp.org/www-community/attacks/CSV_Injection), and a student chooses their own
name. `guard` puts an apostrophe before such a text, and `unguard` takes exactly that one away.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence

# White space before the sign does not disarm it everywhere; the full-width forms are read as
# the signs themselves by spreadsheets in Chinese and Japanese.
FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")  # noqa: RUF001
BOM = "\ufeff"  # without it Excel takes UTF-8 for the code page of its country


def guard(value: object) -> object:
    """What to write into a cell for `value`. Numbers pass: only a text can be a formula."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def unguard(text: str) -> str:
    """The text that `guard` made this cell from."""
    return text[1:] if text.startswith("'") and FORMULA.match(text[1:]) else text


def table_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV: with a byte order mark, every cell guarded, None as an empty cell."""
    written = io.StringIO()
    written.write(BOM)
    writer = csv.writer(written)  # lines end as RFC 4180 has it, and a lone CR is quoted
    writer.writerow([guard(name) for name in header])
    writer.writerows([guard(value) for value in row] for row in rows)
    return written.getvalue()


def read_table(text: str) -> list[dict[str, str]]:
    """The rows of a table, as `table_text` or a person wrote it: what is missing is empty."""
    rows = csv.reader(io.StringIO(text.removeprefix(BOM), newline=""))
    header = [unguard(name) for name in next(rows, ())]
    table = (map(unguard, [*row, *[""] * (len(header) - len(row))]) for row in rows if any(row))
    return [dict(zip(header, row, strict=False)) for row in table]
