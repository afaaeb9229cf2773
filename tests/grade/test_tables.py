"""Tables that a spreadsheet opens, and what a student's name can do in them: nothing."""

import csv
import io

import pytest

from coursework.grade.tables import read_table, table_text

ARMED = ["=cmd()", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1"]
ARMED += ["'=1", "''=1", "'\t"]
HARMLESS = ["Ada", "O'Brien", "'tis", "''", "", "a=b", "Zoë, the second", "12"]
# The last four are the same signs, as wide as a Chinese letter.
SIGNS = tuple("\t\r\n=+-@\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize("name", ARMED + HARMLESS)
def test_no_cell_begins_a_formula(name):
    text = table_text(["student", f"{name},"], [[name, -1]])
    table = io.StringIO(text.removeprefix("\ufeff"), newline="")
    head, row = csv.reader(table)
    student, points = row
    for cell in [*head, student]:
        assert not cell.lstrip(" ").startswith(SIGNS)
    # A number is no formula.
    assert points == "-1"


@pytest.mark.parametrize("name", ARMED + HARMLESS)
def test_what_is_read_is_what_was_written(name):
    text = table_text(["student", f"{name},"], [[name, -1]])
    assert read_table(text) == [{"student": name, f"{name},": "-1"}]


def test_a_row_that_a_person_cut_short_is_read():
    assert read_table("a,b\n1\n,\n") == [{"a": "1", "b": ""}]
