"""What chapters say in words is what their code does."""

import ast
import re

from helpers import ROOT, cell, read

from tools.book.book import Book
from tools.book.grammar import HOW_LONG
from tools.book.length import length


def code_in_table(source):
    """Return the code that stands in the second column of a table."""
    code = set()
    for line in source.splitlines()[1:]:
        columns = line.split(" | ")
        if len(columns) > 1:
            code.update(re.findall(r"`([^`]+)`", columns[1]))
    return code


def texts_in_code(source):
    texts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant):
            texts.add(node.value)
    return texts


def test_every_line_in_the_table_of_hidden_copies_runs():
    notebook = read(ROOT / "notebooks" / "copying-between-devices.ipynb")
    listed = code_in_table(cell(notebook, "masks-note").source)
    assert len(listed) > 20

    to_show = texts_in_code(cell(notebook, "to-show").source)
    to_compute = texts_in_code(cell(notebook, "to-compute").source)
    # Named beside `str(Y)`, which both call.
    assert listed - to_show - to_compute == {"print(Y)", "Y"}


def test_twenty_minutes_are_enough_in_every_framework():
    for chapter in Book(ROOT).chapters_on("gpus-in-twenty-minutes"):
        title = chapter.notebook.cells[0].source
        [minutes] = HOW_LONG.findall(title)
        assert length(chapter).minutes <= int(minutes), chapter.where
