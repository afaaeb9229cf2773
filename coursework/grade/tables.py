"""Tables as CSV that a spreadsheet opens without executing anything.

A spreadsheet takes a cell for a formula if it begins with one of `= + - @`, a tab or a
carriage return (https://owasp.org/www-community/attacks/CSV_Injection), and students
choose their own names. `guard` puts an apostrophe before such a text, and `unguard` takes
exactly that one away.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coursework.grade.results import shown

# White space before the sign does not disarm it everywhere; the full-width forms are read as
# the signs themselves by spreadsheets in Chinese and Japanese.
FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")  # noqa: RUF001
BOM = "\ufeff"  # without it Excel takes UTF-8 for the code page of its country


def guard(value: object) -> object:
    """Return what to write into a cell for a value. Only a text can be a formula."""
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"
    return value


def unguard(text: str) -> str:
    """Return the text that `guard` made this cell from."""
    if text.startswith("'") and FORMULA.match(text[1:]):
        return text[1:]
    return text


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

    Raises ValueError if it is none of them. cp1252 is a guess: compare a name that you
    know, and look whether what was typed `is_western`.
    """
    if data.startswith(UTF_16):
        data.decode("utf-16")
        return "utf-16"
    if b"\0" in data:
        raise ValueError("zero bytes as in UTF-16, without its byte order mark")
    try:
        data.decode("utf-8-sig")
        return "utf-8-sig"
    except UnicodeDecodeError:
        data.decode("cp1252")
    return "cp1252"


def is_western(text: str) -> bool:
    """Tell whether a text decoded as cp1252 looks as if it had been written in it."""
    return WESTERN.fullmatch(text) is not None


def separator_of(text: str, columns: Iterable[str]) -> tuple[str | None, str]:
    """Find the separator with which the first row has these columns.

    Returns it, or None if it is none of those that spreadsheets use, and the text below
    Excel's line `sep=;`.
    """
    text = text.removeprefix(BOM)
    needed = set(columns)
    candidates = SEPARATORS
    line = SEPARATOR_LINE.match(text)
    if line:
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
    """Return a table as CSV with a byte order mark, every cell guarded, None as empty."""
    text = io.StringIO()
    text.write(BOM)
    # Lines end as RFC 4180 has it, and a lone CR is quoted.
    writer = csv.writer(text, delimiter=layout.separator)
    writer.writerow([guard(name) for name in header])
    for row in rows:
        writer.writerow([cell_text(value, layout) for value in row])
    return text.getvalue()


def cell_text(value: object, layout: Layout) -> object:
    """Return what to write for a value: guarded, and fractions with the decimal sign."""
    if isinstance(value, float):
        return shown(value, layout.decimal)
    return guard(value)


def read_table(text: str, separator: str = ",") -> list[dict[str, str]]:
    """Return the rows of a table, as `table_text` or a person wrote it.

    Cells that are missing are empty.
    """
    return [row for _, row in numbered_rows(text, separator)]


def numbered_rows(text: str, separator: str = ",") -> list[tuple[int, dict[str, str]]]:
    """Return the rows that hold anything, with the numbers that a spreadsheet shows."""
    file = io.StringIO(text.removeprefix(BOM), newline="")
    lines = csv.reader(file, delimiter=separator)
    header = [unguard(name) for name in next(lines, ())]
    rows = []
    for number, line in enumerate(lines, start=2):
        if any(line):
            cells = [unguard(cell) for cell in line]
            cells += [""] * (len(header) - len(cells))
            rows.append((number, dict(zip(header, cells, strict=False))))
    return rows


def loses_a_row(before: Iterable[Mapping], after: Iterable[Mapping]) -> bool:
    """Tell whether a row of a table is missing in a later one, or says something else."""
    later = {frozenset(row.items()) for row in after}
    return any(frozenset(row.items()) not in later for row in before)
