"""The clinic: one script, mended from chapter to chapter, with one scoreboard."""

import ast
import re
from itertools import pairwise

import pytest
from helpers import ROOT, cell, read

from tools.book.chapters import Chapter
from tools.book.notebooks import tags

ORDER = [
    "computing-devices",
    "tensors-on-gpus",
    "copying-between-devices",
    "neural-networks-on-gpus",
    "what-costs-time",
    "what-takes-memory",
    "two-gpus-at-once",
]
# It executes the script as it was found, and all twelve mends.
WALK = "what-takes-memory"
MENDED = re.compile(r"board(?:\[| = \{)'(\d+) ([^']+)'")
UNKNOWN_ON_CPU = re.compile("GPU|copied|waits|H100")
DASH = "\N{EN DASH}"


def clinic_cells(name):
    chapter = Chapter(name, read(ROOT / "notebooks" / f"{name}.ipynb"))
    return [cell for cell in chapter.code_cells if cell.id.startswith("clinic")]


def definitions(source):
    """Return what a program defines, by name: its functions, and what it assigns."""
    by_name = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            by_name[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign):
            by_name[ast.unparse(node.targets[0])] = ast.unparse(node)
    return by_name


def shown_in(name):
    """Return the definitions in each cell of the clinic that a chapter shows."""
    shown = []
    for clinic_cell in clinic_cells(name):
        if "hide-input" not in tags(clinic_cell) and clinic_cell.id != "clinic-patient":
            shown.append(definitions(clinic_cell.source))
    return shown


def versions_in(name):
    """Return the versions of the script that a chapter measures, by their number."""
    versions = {}
    for clinic_cell in clinic_cells(name):
        for number, what in MENDED.findall(clinic_cell.source):
            versions[int(number)] = f"{number} {what}"
    return versions


@pytest.fixture(scope="module")
def mends():
    """What the walk executes: the definitions of each version, the first as it was found."""
    source = cell(read(ROOT / "notebooks" / f"{WALK}.ipynb"), "clinic-way").source
    values = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            values[node.targets[0].id] = ast.literal_eval(node.value)
    texts = {"as found": values["FOUND"]} | values["MENDS"]
    assert len(texts) == 13
    return {name: definitions(text) for name, text in texts.items()}


def test_the_first_chapter_shows_the_script_as_found(mends):
    shown = {}
    for shown_definitions in shown_in(ORDER[0]):
        for name, text in shown_definitions.items():
            # What is mended in this chapter comes later.
            shown.setdefault(name, text)
    assert mends["as found"].items() <= shown.items()


@pytest.mark.parametrize(("before", "name"), [*pairwise(ORDER)])
def test_a_chapter_begins_with_what_the_last_one_left(before, name, mends):
    begins = min(versions_in(name))
    assert begins == max(versions_in(before))
    mended = {}
    for version in list(mends.values())[: begins + 1]:
        mended |= version
    [script] = [cell for cell in clinic_cells(name) if cell.id == "clinic-script"]
    assert definitions(script.source) == mended


def test_what_chapters_mend_is_what_the_walk_executes(mends):
    names = list(mends)
    for chapter in ORDER[: ORDER.index(WALK) + 1]:
        shown = []
        for shown_definitions in shown_in(chapter):
            shown += shown_definitions.items()
        versions = versions_in(chapter)
        for number in sorted(versions)[1:]:
            version = versions[number]
            assert version == names[number]
            for definition in mends[version].items():
                assert definition in shown


def tables(notebook):
    """Yield the tables that the clinic printed in a chapter, as lists of rows of cells."""
    for clinic_cell in notebook.cells:
        if not clinic_cell.id.startswith("clinic"):
            continue
        for output in clinic_cell.outputs:
            text = output.get("data", {}).get("text/markdown")
            if text is not None:
                yield [row_of(line) for line in text.strip().split("\n")]


def row_of(line):
    return [column.strip() for column in line.strip("|").split("|")]


def scoreboards(notebook):
    """Yield (version, {head: value}) for each row of the clinic's scoreboards."""
    for table in tables(notebook):
        (_, *heads), _, *rows = table
        for version, *values in rows:
            yield version, dict(zip(heads, values, strict=True))


def test_a_version_has_one_value_in_every_scoreboard(recordings):
    values = {}
    for name in ORDER:
        for version, row in scoreboards(recordings["simulated", name]):
            for head, value in row.items():
                place = (name, version, head)
                first = values.setdefault((version, head), value)
                assert value == first, place
    # As it was found, twelve mends, and on both GPUs.
    versions = {version for version, _ in values}
    assert len(versions) == 14


@pytest.mark.parametrize("name", ORDER[1:])
def test_the_cpu_has_a_dash_for_what_it_cannot_tell(recordings, name):
    for _, row in scoreboards(recordings["cpu", name]):
        for head, value in row.items():
            if UNKNOWN_ON_CPU.search(head):
                assert value == DASH, head
