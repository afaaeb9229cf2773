"""The clinic: one script, mended from chapter to chapter, and one scoreboard that is carried on."""

import ast
import re
from collections import ChainMap

import pytest
from helpers import ROOT, cell, read

from tools.book.chapters import Chapter
from tools.book.notebooks import tags

ORDER = ["computing-devices", "tensors-on-gpus", "copying-between-devices"]
ORDER += [
    "neural-networks-on-gpus",
    "what-costs-time",
    "what-takes-memory",
    "two-gpus-at-once",
]
WALK = "what-takes-memory"  # executes the script as it was found, and all twelve mends
MENDED = re.compile(r"board(?:\[| = \{)'(\d+) ([^']+)'")


def cells_of(name):
    chapter = Chapter(name, read(ROOT / "notebooks" / f"{name}.ipynb"))
    return [cell for cell in chapter.code_cells if cell.id.startswith("clinic")]


def definitions(source):
    """What a text defines, by name: its functions, and what it assigns outside of them."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ast.unparse(node)
    return found


def shown_in(name):
    cells = [cell for cell in cells_of(name) if "hide-input" not in tags(cell)]
    return [definitions(cell.source) for cell in cells if cell.id != "clinic-patient"]


def mends_in(name):
    found = (match for cell in cells_of(name) for match in MENDED.findall(cell.source))
    return {int(number): f"{number} {what}" for number, what in found}


@pytest.fixture(scope="module")
def mends():
    """What the walk executes: each mend's definitions by its name, the script as found first."""
    source = cell(read(ROOT / "notebooks" / f"{WALK}.ipynb"), "clinic-way").source
    given = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    said = {node.targets[0].id: ast.literal_eval(node.value) for node in given}
    texts = {"as found": said["FOUND"]} | said["MENDS"]
    assert len(texts) == 13
    return {name: definitions(text) for name, text in texts.items()}


def test_the_first_chapter_shows_the_script_as_it_was_found(mends):
    shown = ChainMap(
        *shown_in(ORDER[0])
    )  # of two the first: what is mended there comes later
    assert mends["as found"].items() <= shown.items()


@pytest.mark.parametrize("name", ORDER[1:])
def test_a_chapter_begins_with_what_the_last_one_left(name, mends):
    begins = min(mends_in(name))
    assert begins == max(mends_in(ORDER[ORDER.index(name) - 1]))
    (script,) = [cell.source for cell in cells_of(name) if cell.id == "clinic-script"]
    assert definitions(script) == dict(ChainMap(*[*mends.values()][begins::-1]))


def test_what_chapters_mend_is_what_the_walk_executes(mends):
    for name in ORDER[: ORDER.index(WALK) + 1]:
        shown = [definition for cell in shown_in(name) for definition in cell.items()]
        for number in sorted(mends_in(name))[1:]:
            mend = mends_in(name)[number]
            assert mend == [*mends][number]
            assert [text for text in mends[mend].items() if text not in shown] == []


def scoreboards(outputs):
    """The rows (version, {head: value}) of the tables that the clinic printed in a chapter."""
    cells = (cell for cell in outputs.cells if cell.id.startswith("clinic"))
    printed = (output.get("data", {}) for cell in cells for output in cell.outputs)
    for text in (data["text/markdown"] for data in printed if "text/markdown" in data):
        lines = [line.strip("|").split("|") for line in text.strip().split("\n")]
        (_, *heads), _, *rows = ([column.strip() for column in line] for line in lines)
        yield from (
            (version, dict(zip(heads, row, strict=True))) for version, *row in rows
        )


def test_a_version_has_one_value_in_every_scoreboard(recordings):
    known = {}
    for name in ORDER:
        for version, row in scoreboards(recordings["simulated", name]):
            for head, value in row.items():
                assert known.setdefault((version, head), value) == value, (
                    name,
                    version,
                    head,
                )
    assert (
        len({version for version, _ in known}) == 14
    )  # as found, twelve mends, both GPUs


def test_the_cpu_has_a_dash_for_what_it_cannot_tell(recordings):
    for name in ORDER[1:]:
        for _, row in scoreboards(recordings["cpu", name]):
            cells = {
                row[head] for head in row if re.search("GPU|copied|waits|H100", head)
            }
            assert cells <= {"\N{EN DASH}"}
