"""What the chapter on copying says of copies that hide is what it runs, line by line."""

import ast
import re

import pytest
from helpers import ROOT, read

CHAPTER = read(ROOT / "notebooks" / "copying-between-devices.ipynb")
SHOWN = {"print(Y)", "Y"}  # named beside `str(Y)`, which they call


def source(id):
    return next(cell.source for cell in CHAPTER.cells if cell.id == id)


def lines_said(text):
    """The lines in the middle column of the table of a text cell."""
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")]
    return {line for row in rows[1:] for line in re.findall(r"`([^`]+)`", row[1])} - SHOWN


def lines_run(*programs):
    """The lines that the cells add to `hidden`, and those of `quiet`."""
    run = {"hidden": set(), "quiet": set()}
    for program in programs:
        for node in ast.parse(program).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", 0)
            if getattr(target, "id", None) in run:
                strings = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
                run[target.id] |= {each.value for each in strings if isinstance(each.value, str)}
    return run["hidden"], run["quiet"]


def test_every_line_of_the_table_of_hidden_copies_is_run_and_no_other():
    hidden, quiet = lines_run(source("to-show"), source("to-compute"))
    said = lines_said(source("masks-note"))
    assert said == hidden and len(said) > 20
    assert not hidden & quiet
    row = next(line for line in source("masks-note").splitlines() if "to know a shape" in line)
    assert lines_said(source("masks-note").replace(row, "")) != hidden  # a row that is lost


@pytest.mark.parametrize("reason", ["a shape", "room in the queue", "memory from the driver"])
def test_a_value_is_not_all_that_python_waits_for(reason):
    assert re.search(rf"^\| {reason} \|", source("stops"), re.M)
    everything = "\n".join(cell.source for cell in CHAPTER.cells)
    assert "stops only where it needs" not in everything


def test_a_bus_may_be_faster_than_the_memory_of_the_host():
    found = {}
    exec(source("speeds"), found)
    speeds = found["speeds"]
    assert speeds["PCIe 5 x16"] > speeds["host, 2 channels of DDR4-3200"] == pytest.approx(51.2)
    assert max(speeds["PCIe 5 x16"], speeds["PCIe 3 x16"]) < speeds["memory of a T4"]
