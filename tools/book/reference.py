"""The parts of the two pages that are looked up by words, and not read from first to last.

*Symptoms, causes and fixes* has four cells below one another for each symptom: `name`, its heading;
`name-shown`, a program that produces it; `name-cause`, with the cause, the fix and a link to
the section that explains it; `name-cured`, a program that is cured. Words of a message stand in
the heading as code, and the program has printed them. Where no runner can, `name-shown` quotes
them with their source, and `name-cured` is a text too.

*What raises, what copies, what moves silently* has two cells for each operation: `name-title`,
its heading, and `name`, a program. That prints what happened, in words that begin with one of
VERBS, and below them the error, or what was where.
"""

import re
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.book.grammar import ENTRY, GROUP, OUTCOME_TITLE, SYMPTOM_PARTS
from tools.book.notebooks import printed_text
from tools.files import read_beside

VERBS = read_beside(__file__, "verbs.yml")


# Symptoms.


@dataclass(frozen=True)
class Symptom:
    """One symptom of the page: its cells."""

    heading: NotebookNode
    shown: NotebookNode
    cause: NotebookNode
    cured: NotebookNode

    @property
    def title(self) -> str:
        return self.heading.source.removeprefix(ENTRY)

    @property
    def message(self) -> str:
        """The words of its message, "" if it has none."""
        words = re.match("`([^`]+)`", self.title)
        return words[1] if words else ""

    @property
    def quoted(self) -> bool:
        """Whether its message is quoted, as no program here produces it."""
        return self.shown.cell_type == "markdown"


def groups_of(chapter: Chapter) -> dict[str, list[Symptom]]:
    """Return the whole symptoms of the page, in order, under the titles of their groups."""
    cells = {cell.id: cell for cell in chapter.notebook.cells}
    title = chapter.title
    groups: dict[str, list[Symptom]] = {}
    for cell in chapter.notebook.cells:
        if match := re.match(r"## (.+)", cell.source):
            title = match[1]
        elif cell.source.startswith(ENTRY):
            parts = [cells.get(f"{cell.id}-{part}") for part in SYMPTOM_PARTS]
            if all(parts):
                groups.setdefault(title, []).append(Symptom(cell, *parts))
    return groups


def symptoms_of(chapter: Chapter) -> list[Symptom]:
    symptoms = []
    for group in groups_of(chapter).values():
        symptoms += group
    return symptoms


# Outcomes.


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


def outcome_of(cell: NotebookNode) -> str:
    """Return the first line that a program printed, which says what happened."""
    first_line, _, _ = printed_text(cell).partition("\n")
    return first_line


def verb_of(outcome: str) -> str:
    """Return the first word of an outcome, by which readers filter the table."""
    return outcome.partition(" ")[0].rstrip(",")
