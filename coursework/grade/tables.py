"""Tables as CSV that a spreadsheet opens without executing anything.

A spreadsheet takes a cell for a formula if it begins with one of `= + - @`, a tab or a carriage
return (https://owasp.org/www-community/attacks/CSV_Injection), and a student chooses their own
name. `guard` puts an apostrophe before such a text, and `unguard` takes exactly that one away.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coursework.grade.points import shown

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


@dataclass(frozen=True)
class Layout:
    """How a spreadsheet writes a table: Excel uses `;` where the comma is the decimal sign."""

    separator: str = ","
    decimal: str = "."


COMMAS = Layout()
SEPARATORS = ",;\t"
SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?\r?\n', re.I)  # for Excel alone, no row
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What a note in cp1252 may hold besides ASCII: letters, but not many in a row, as in a text of
# another alphabet, and signs. Other signs are letters of another code page: the Polish one has its
# `l` with a stroke where cp1252 has a raised 3. `µ` and `º` are plain in "5 µs" and "1º" alone.
WESTERN = re.compile(
    r"""(?: [\x00-\x7f‘’‚“”„–—…€«»°§´·¿¡] | µ(?=[A-Za-z]) | (?<=\d)[ªº]
    | (?<![À-ÿŠšŽžŒœŸ]) [À-ÖØ-öø-ÿŠšŽžŒœŸ]{1,2} (?![À-ÖØ-öø-ÿŠšŽžŒœŸ]) )*""",  # noqa: RUF001
    re.X,
)


def encoding_of(data: bytes) -> str:
    """Return the encoding that a spreadsheet saved a table in: UTF-8, UTF-16 or cp1252.

    Raises ValueError where it is none of them. cp1252 is a guess: compare a name that you know, and
    look whether what was typed `is_western`.
    """
    if data.startswith(UTF_16):
        data.decode("utf-16")
        return "utf-16"
    if b"\0" in data:
        raise ValueError("zero bytes, as UTF-16 has them, without its mark")
    try:
        data.decode("utf-8-sig")
        return "utf-8-sig"
    except UnicodeDecodeError:
        data.decode("cp1252")
    return "cp1252"


def is_western(text: str) -> bool:
    """Does a text, decoded as cp1252, look as if it had been written in it?"""
    return WESTERN.fullmatch(text) is not None


def separator_of(text: str, columns: Iterable[str]) -> tuple[str | None, str]:
    """Return the separator with which these columns are in the first row, and the text below
    Excel's line `sep=;`. The separator is None if it is none of those that spreadsheets use."""
    text = text.removeprefix(BOM)
    needed = set(columns)
    candidates = SEPARATORS
    if line := SEPARATOR_LINE.match(text):
        candidates = line[1]
        text = text[line.end() :]
    for separator in candidates:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        header = next(rows, [])
        if needed <= {unguard(name) for name in header}:
            return separator, text
    return None, text


def table_text(
    header: Sequence[str], rows: Iterable[Sequence[object]], layout: Layout = COMMAS
) -> str:
    """A table as CSV: with a byte order mark, every cell guarded, None as an empty cell."""
    written = io.StringIO()
    written.write(BOM)
    # Lines end as RFC 4180 has it, and a lone CR is quoted.
    writer = csv.writer(written, delimiter=layout.separator)
    writer.writerow([guard(name) for name in header])
    for row in rows:
        writer.writerow([cell_text(value, layout) for value in row])
    return written.getvalue()


def cell_text(value: object, layout: Layout) -> object:
    """Return what to write for a value: guarded, and fractions with the decimal sign."""
    return shown(value, layout.decimal) if isinstance(value, float) else guard(value)


def read_table(text: str, separator: str = ",") -> list[dict[str, str]]:
    """The rows of a table, as `table_text` or a person wrote it: what is missing is empty."""
    return [row for _, row in numbered_rows(text, separator)]


def numbered_rows(text: str, separator: str = ",") -> list[tuple[int, dict[str, str]]]:
    """The rows that hold anything, each with the number that a spreadsheet shows beside it."""
    lines = csv.reader(
        io.StringIO(text.removeprefix(BOM), newline=""), delimiter=separator
    )
    header = [unguard(name) for name in next(lines, ())]
    rows = []
    for number, line in enumerate(lines, start=2):
        if any(line):
            cells = [unguard(cell) for cell in line]
            cells += [""] * (len(header) - len(cells))
            rows.append((number, dict(zip(header, cells, strict=False))))
    return rows
