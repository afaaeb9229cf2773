"""The parts of the page *What raises, what copies, what moves silently*.

An operation is two cells: `name-title`, its heading, and `name`, a program. That prints what
happened, in words that begin with one of VERBS, and below them the error, or what was where.
"""

from dataclasses import dataclass

from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.book.grammar import ENTRY, GROUP, OUTCOME_TITLE
from tools.files import read_beside

VERBS = read_beside(__file__, "verbs.yml")


@dataclass(frozen=True)
class Operation:
    """One row of the table: its title, the group in which it stands, the id of its program."""

    title: str
    group: str
    id: str


def operations_of(chapter: Chapter) -> list[Operation]:
    operations = []
    group = ""
    for cell in chapter.notebook.cells:
        if cell.source.startswith(ENTRY):
            title = cell.source.removeprefix(ENTRY)
            program = cell.id.removesuffix(OUTCOME_TITLE)
            operations.append(Operation(title, group, program))
        elif cell.source.startswith(GROUP):
            group = cell.source.partition("\n")[0].removeprefix(GROUP)
    return operations


def words(cell: NotebookNode) -> str:
    """Return the first line that a program printed, which says what happened."""
    printed = [output.text for output in cell.outputs if output.output_type == "stream"]
    return "".join(printed).partition("\n")[0]


def verb(outcome: str) -> str:
    """Return the first word of an outcome, by which readers filter the table."""
    return outcome.partition(" ")[0].rstrip(",")
