"""The clinic: one script, mended from chapter to chapter, and one scoreboard that is carried on."""

import ast
import re

import pytest
from helpers import ROOT, cell, read

from tools.book.chapters import Chapter
from tools.book.notebooks import tags

ORDER = (
    *("computing-devices", "tensors-on-gpus", "copying-between-devices"),
    *("neural-networks-on-gpus", "what-costs-time", "what-takes-memory"),
    "two-gpus-at-once",
)
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
    """What the cells that the page shows unfolded define."""
    cells = [cell for cell in cells_of(name) if "hide-input" not in tags(cell)]
    return [definitions(cell.source) for cell in cells if cell.id != "clinic-patient"]


@pytest.fixture(scope="module")
def walk():
    """The script as it was found, and the text of each mend by its name, of the walk."""
    source = cell(read(ROOT / "notebooks" / f"{WALK}.ipynb"), "clinic-way").source
    said = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
    }
    return said["FOUND"], said["MENDS"]


def after(number, walk):
    """What the script defines when so many faults are mended."""
    found, mends = walk
    script = definitions(found)
    for text in list(mends.values())[:number]:
        script |= definitions(text)
    return script


def mends_in(name):
    """The versions that a chapter examines: their names by their numbers."""
    found = (match for cell in cells_of(name) for match in MENDED.findall(cell.source))
    return {int(number): f"{number} {what}" for number, what in found}


def test_the_first_chapter_shows_the_script_as_it_was_found(walk):
    shown = {}
    for defined in reversed(shown_in(ORDER[0])):  # what is mended there comes later
        shown |= defined
    assert after(0, walk).items() <= shown.items()


@pytest.mark.parametrize("name", ORDER[1:])
def test_a_chapter_begins_with_what_the_last_one_left(name, walk):
    begins = min(mends_in(name))
    assert begins == max(mends_in(ORDER[ORDER.index(name) - 1]))
    (script,) = [cell.source for cell in cells_of(name) if cell.id == "clinic-script"]
    assert definitions(script) == after(begins, walk)


def test_what_chapters_mend_is_what_the_walk_executes(walk):
    _, mends = walk
    assert len(mends) == 12
    for name in ORDER[: ORDER.index(WALK) + 1]:
        shown = [text for defined in shown_in(name) for text in defined.values()]
        for number in sorted(mends_in(name))[1:]:
            assert mends_in(name)[number] == list(mends)[number - 1]
            for text in definitions(list(mends.values())[number - 1]).values():
                assert text in shown


# The scoreboard


def rows_in(text):
    """The rows of a table in Markdown, by the first cell: from each head to what is below it."""
    heads, _, *rows = (
        [column.strip() for column in line.strip("|").split("|")]
        for line in text.strip().split("\n")
    )
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


def scoreboards(outputs):
    """The tables that the clinic printed in a recorded chapter."""
    cells = (cell for cell in outputs.cells if cell.id.startswith("clinic"))
    printed = (output.get("data", {}) for cell in cells for output in cell.outputs)
    return [rows_in(data["text/markdown"]) for data in printed if "text/markdown" in data]


def test_a_version_has_one_value_in_every_scoreboard(recordings):
    known = {}
    for name in ORDER:
        for table in scoreboards(recordings["simulated", name]):
            for version, row in table.items():
                for head, value in row.items():
                    assert known.setdefault((version, head), value) == value, (name, version, head)
    assert len({version for version, _ in known}) == 14  # as found, twelve mends, both GPUs


def test_the_cpu_has_a_dash_for_what_it_cannot_tell(recordings):
    for name in ORDER[1:]:
        for row in (
            row for table in scoreboards(recordings["cpu", name]) for row in table.values()
        ):
            cells = {row[head] for head in row if re.search("GPU|copied|waits|H100", head)}
            assert cells <= {"\N{EN DASH}"}
