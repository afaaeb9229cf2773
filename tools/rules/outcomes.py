"""The page *What raises, what copies, what moves silently*, and what its notebooks keep to.

An operation is two cells: `name-title`, its heading, and `name`, a program. That prints what
happened, in words that begin with one of VERBS, and below them the error, or what was where.
"""

from typing import NamedTuple

from nbformat import NotebookNode

from tools.book.cells import Broken
from tools.book.chapters import Chapter
from tools.book.recordings import Recording
from tools.files import read_beside

OPERATION, GROUP = "### ", "## "
TABLE = "operations"  # the cell with whose text the table stands
VERBS = read_beside(__file__, "verbs.yml")


class Operation(NamedTuple):
    title: str
    group: str
    id: str


def operations_of(chapter: Chapter) -> list[Operation]:
    found, group = [], ""
    for cell in chapter.notebook.cells:
        if cell.source.startswith(OPERATION):
            title = cell.source.removeprefix(OPERATION)
            found.append(Operation(title, group, cell.id.removesuffix("-title")))
        elif cell.source.startswith(GROUP):
            group = cell.source.partition("\n")[0].removeprefix(GROUP)
    return found


def words(cell: NotebookNode) -> str:
    """What a program says that happened: the first line that it printed."""
    printed = (output.text for output in cell.outputs if output.output_type == "stream")
    return "".join(printed).partition("\n")[0]


def verb(said: str) -> str:
    return said.partition(" ")[0].rstrip(",")


def shown_outcomes(chapter: Chapter, recordings: list[Recording]) -> Broken:
    cells = {cell.id: cell for cell in chapter.code_cells}
    for operation in operations_of(chapter):
        if operation.id not in cells:
            yield None, f"no code cell '{operation.id}' for '{operation.title}'; add it"
        for recording in recordings:
            made = recording.cells.get(operation.id)
            if made and verb(words(made)) not in VERBS:
                said = f"says '{words(made)}' on {recording.folder}"
                yield cells[operation.id], f"{said}; begin with {', '.join(VERBS)}"
