"""The table of operations shows the programs that are there, and what each of them said."""

import ast
import json

import pytest
import yaml
from helpers import ROOT

from tools.book.book import Book
from tools.site.operations import NAMES, operations_table


@pytest.mark.parametrize("framework", NAMES)
def test_what_is_recorded_comes_from_the_programs(framework):
    folder = ROOT / "book" / "operations"
    sections = yaml.safe_load((folder / "rows.yml").read_text(encoding="utf-8"))
    rows = [name for section in sections.values() for name in section]
    text = (folder / f"in_{framework}.py").read_text(encoding="utf-8")
    functions = {each.name: each for each in ast.parse(text).body if hasattr(each, "args")}
    there = {row: ast.get_source_segment(text, functions[row]) for row in rows if row in functions}
    path = ROOT / "outputs" / "operations" / f"{framework}.json"
    recorded = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert {row: found["program"].rstrip() for row, found in recorded.items()} == there, (
        f"record it again: book/operations/run.py {framework}"
    )


def test_entries_say_what_came_of_it():
    lines = operations_table(Book(ROOT))
    entries = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("|")}
    assert ">raises<" in entries["`X + Y`"] and ">copies, to GPU:0<" in entries["`X + Y`"]
    assert ">moves, to GPU:0<" in entries["`Y + 1.0`"] and ">cuda:1<" in entries["`Y + 1.0`"]
    assert "needs a GPU" in entries["`Y + H`"]
