"""Tables that a spreadsheet opens, and what a student's name can do in them: nothing."""

import csv
import io

import pytest

from tools.grade.tables import read_table, table_text

ARMED = [
    *("=cmd()", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1"),  # noqa: RUF001
    *("'=1", "''=1", "'\t"),
]
HARMLESS = ["Ada", "O'Brien", "'tis", "''", "", "a=b", "Zoë, the second", "12"]


def cells(text):
    """The cells of a CSV, as another program reads them."""
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def starts_formula(text):
    signs = tuple("=+-@＝＋－＠")  # noqa: RUF001
    return text.startswith(("\t", "\r", "\n")) or text.lstrip(" ").startswith(signs)


@pytest.mark.parametrize("name", ARMED)
def test_no_cell_begins_a_formula(name):
    text = table_text(["student", name], [[name, 3], [f"{name},{name}", -1]])
    header, *rows = cells(text)
    assert not any(starts_formula(cell) for cell in [*header, *(row[0] for row in rows)])
    assert [row[1] for row in rows] == ["3", "-1"]  # a number is no formula


@pytest.mark.parametrize("name", ARMED + HARMLESS)
def test_what_is_read_is_what_was_written(name):
    [row] = read_table(table_text(["student", "x"], [[name, "y"]]))
    assert row == {"student": name, "x": "y"}


def test_a_row_that_a_person_cut_short_is_read():
    assert read_table("a,b\n1\n,\n") == [{"a": "1", "b": ""}]
