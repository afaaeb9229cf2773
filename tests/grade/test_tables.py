"""Tables that a spreadsheet opens, and what a student's name can do in them: nothing."""

import csv
import io

from coursework.grade.tables import read_table, table_text

ARMED = [
    *("=cmd()", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1"),  # noqa: RUF001
    *("'=1", "''=1", "'\t"),
]
HARMLESS = ["Ada", "O'Brien", "'tis", "''", "", "a=b", "Zoë, the second", "12"]
SIGNS = ("\t", "\r", "\n", *"=+-@＝＋－＠")  # noqa: RUF001


def test_no_cell_begins_a_formula_and_what_is_read_is_what_was_written():
    for name in ARMED + HARMLESS:
        text = table_text(["student", f"{name},"], [[name, -1]])
        cells = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
        assert not any(
            cell.lstrip(" ").startswith(SIGNS) for cell in (*cells[0], cells[1][0])
        )
        assert cells[1][1] == "-1"  # a number is no formula
        assert read_table(text) == [{"student": name, f"{name},": "-1"}]
    assert read_table("a,b\n1\n,\n") == [
        {"a": "1", "b": ""}
    ]  # a person cut the row short
