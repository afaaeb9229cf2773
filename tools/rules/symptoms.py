"""The parts of the page *Symptom, cause, cure*, and what its notebook keeps to.

A symptom is four cells below one another: `name`, its heading; `name-shown`, a program that
produces it; `name-cause`, with the cause, the cure and a link to the section that explains it;
`name-cured`, a program that is cured. Words of a message stand in the heading as code, and the
program has printed them. Where no runner can, `name-shown` quotes them with their source, and
`name-cured` is a text too.
"""

import re
from itertools import product
from typing import NamedTuple

from nbformat import NotebookNode

from tools.book.cells import Broken
from tools.book.chapters import Chapter
from tools.book.recordings import Recording

SYMPTOM = "### "  # begins its heading
CAUSE = re.compile(
    r"\*\*Cause\.\*\* \S.*\n\n\*\*Cure\.\*\* \S.* Read on: \[[^]]+\]\([^)#]+#[^)]+\)\.",
    re.S,
)
QUOTED = re.compile(
    r"\*\*Quoted\*\* from \[[^]]+\]\(https://[^)]+\).*\n\n```text\n(.+)\n```", re.S
)
ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Warning): ", re.M)
PARTS = {"shown": "code", "cause": "markdown", "cured": "code"}


class Symptom(NamedTuple):
    """One symptom of the page: its cells."""

    heading: NotebookNode
    shown: NotebookNode
    cause: NotebookNode
    cured: NotebookNode

    @property
    def title(self) -> str:
        return self.heading.source.removeprefix(SYMPTOM)

    @property
    def message(self) -> str:
        """The words of its message, "" if it has none."""
        words = re.match("`([^`]+)`", self.title)
        return words[1] if words else ""

    @property
    def quoted(self) -> bool:
        return self.shown.cell_type == "markdown"


def groups_of(chapter: Chapter) -> dict[str, list[Symptom]]:
    """The symptoms of the page under the titles of their groups, in order, if they are whole."""
    cells = {cell.id: cell for cell in chapter.notebook.cells}
    title, groups = chapter.title, {}
    for cell in chapter.notebook.cells:
        if match := re.match(r"## (.+)", cell.source):
            title = match[1]
        elif cell.source.startswith(SYMPTOM):
            parts = [cells.get(f"{cell.id}-{part}") for part in PARTS]
            if all(parts):
                groups.setdefault(title, []).append(Symptom(cell, *parts))
    return groups


def symptoms_of(chapter: Chapter) -> list[Symptom]:
    return [symptom for symptoms in groups_of(chapter).values() for symptom in symptoms]


def whole_symptoms(chapter: Chapter) -> Broken:
    """Each symptom has its four cells, in order, and says its cause, its cure and where to read."""
    cells, titles = chapter.notebook.cells, []
    for number in [
        n for n, cell in enumerate(cells) if cell.source.startswith(SYMPTOM)
    ]:
        cell = cells[number]
        if "\n" in cell.source:
            yield cell, "is more than a heading; give the rest a cell of its own"
        titles.append(cell.source)
        following = cells[number + 1 : number + 1 + len(PARTS)]
        quoted = {cell.cell_type for cell in following[:1]} == {"markdown"}
        kinds = {part: "markdown" for part in PARTS} if quoted else PARTS
        wanted = [(f"{cell.id}-{part}", kind) for part, kind in kinds.items()]
        if [(part.id, part.cell_type) for part in following] != wanted:
            names = ", ".join(f"'{id}' ({kind})" for id, kind in wanted)
            yield cell, f"is not followed by the cells {names}"
        elif not CAUSE.fullmatch(following[1].source):
            words = "'**Cause.** ...', a line between, '**Cure.** ... Read on: [...](...#...).'"
            yield following[1], f"is not {words}"
        elif quoted and not _quotes(Symptom(cell, *following)):
            words = "'**Quoted** from [...](https://...).', and in a block the heading's words"
            yield following[0], f"is not {words}"
        if titles.count(cell.source) > 1:
            yield cell, "has the heading of another symptom; say where this one is met"


def shown_symptoms(chapter: Chapter, recordings: list[Recording]) -> Broken:
    for recording, symptom in product(recordings, symptoms_of(chapter)):
        if {symptom.shown.id, symptom.cured.id} <= recording.cells.keys():
            shown, cured = (
                _text(recording, cell) for cell in (symptom.shown, symptom.cured)
            )
            if " ".join(symptom.message.split()) not in " ".join(shown.split()):
                yield (
                    symptom.shown,
                    f"does not print the heading's words on {recording.folder}",
                )
            if bool(symptom.message) != bool(ERROR.search(shown)):
                yield (
                    symptom.shown,
                    "words of an error stand in the heading as code, others do not",
                )
            if not re.search(r"\w", cured):
                yield (
                    symptom.cured,
                    f"prints nothing on {recording.folder}; show what came of it",
                )
            if ERROR.search(cured):
                yield (
                    symptom.cured,
                    f"prints an error on {recording.folder}; it is not cured",
                )


def _quotes(symptom: Symptom) -> bool:
    match = QUOTED.fullmatch(symptom.shown.source)
    return bool(match and symptom.message) and symptom.message in " ".join(
        match[1].split()
    )


def _text(recording: Recording, cell: NotebookNode) -> str:
    printed = recording.cells[cell.id].outputs
    text = "".join(output.text for output in printed if output.output_type == "stream")
    shown = (output.data["text/plain"] for output in printed if "data" in output)
    return "\n".join([text, *shown])
