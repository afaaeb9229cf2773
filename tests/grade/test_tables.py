"""Tables that a spreadsheet opens, and what a student's name can do in them: nothing."""

import csv
import io

import pytest

from coursework.grade.tables import read_table, table_text

ARMED = [
    *("=cmd()", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1"),  # noqa: RUF001
    *("'=1", "''=1", "'\t"),
]
HARMLESS = ["Ada", "O'Brien", "'tis", "''", "", "a=b", "Zoë, the second", "12"]
SIGNS = ("\t", "\r", "\n", *"=+-@＝＋－＠")  # noqa: RUF001


@pytest.mark.parametrize("name", ARMED + HARMLESS)
def test_no_cell_begins_a_formula(name):
    text = table_text(["student", f"{name},"], [[name, -1]])
    table = io.StringIO(text.removeprefix("\ufeff"), newline="")
    heads, (student, points) = csv.reader(table)
    for cell in (*heads, student):
        assert not cell.lstrip(" ").startswith(SIGNS)
    # A number is no formula.
    assert points == "-1"


@pytest.mark.parametrize("name", ARMED + HARMLESS)
def test_what_is_read_is_what_was_written(name):
    text = table_text(["student", f"{name},"], [[name, -1]])
    assert read_table(text) == [{"student": name, f"{name},": "-1"}]


def test_a_row_that_a_person_cut_short_is_read():
    assert read_table("a,b\n1\n,\n") == [{"a": "1", "b": ""}]
