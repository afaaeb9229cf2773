"""The parts of the page *Symptom, cause, cure*.

A symptom is four cells below one another: `name`, its heading; `name-shown`, a program that
produces it; `name-cause`, with the cause, the cure and a link to the section that explains it;
`name-cured`, a program that is cured. Words of a message stand in the heading as code, and the
program has printed them. Where no runner can, `name-shown` quotes them with their source, and
`name-cured` is a text too.
"""

import re
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.book.grammar import ENTRY, SYMPTOM_PARTS


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
