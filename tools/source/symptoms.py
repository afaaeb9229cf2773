"""The parts of the page *Symptom, cause, cure*, and what its notebook keeps to.

A symptom is four cells below one another: `name`, its heading; `name-shown`, a program that
produces it; `name-cause`, with the cause, the cure and a link to the section that explains it;
`name-cured`, a program that is cured. Words of a message stand in the heading as code, and the
program has printed them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.source.chapters import Chapter
from tools.source.recordings import Recording

HEADING = re.compile(r"### (?P<title>\S.*)")
CAUSE = re.compile(
    r"\*\*Cause\.\*\* \S.*\n\n\*\*Cure\.\*\* \S.* Read on: \[[^]]+\]\([^)#]+#[^)]+\)\.", re.S
)
ERROR = re.compile(r"^\w*(?:Error|Exception|Warning): ", re.M)
PARTS = {"shown": "code", "cause": "markdown", "cured": "code"}

Broken = Iterator[tuple[NotebookNode | None, str]]


@dataclass(frozen=True)
class Symptom:
    """One symptom of the page: its cells, and the words of its message, "" if it has none."""

    heading: NotebookNode
    shown: NotebookNode
    cause: NotebookNode
    cured: NotebookNode

    @property
    def title(self) -> str:
        """Its heading, as Markdown."""
        return self.heading.source.removeprefix("### ")

    @property
    def message(self) -> str:
        """What its program prints, to the letter."""
        words = re.match("`([^`]+)`", self.title)
        return words[1] if words else ""


def symptoms_of(chapter: Chapter) -> list[Symptom]:
    """The symptoms of the page, in order, less those that are not whole."""
    cells = {cell.id: cell for cell in chapter.notebook.cells}
    found = []
    for cell in _headings(chapter):
        parts = [cells.get(f"{cell.id}-{part}") for part in PARTS]
        if all(parts):
            found.append(Symptom(cell, *parts))
    return found


def whole_symptoms(chapter: Chapter) -> Broken:
    """Each symptom has its four cells, in order, and says its cause, its cure and where to read."""
    cells, titles = chapter.notebook.cells, []
    for number, cell in enumerate(cells):
        if cell not in _headings(chapter):
            continue
        if not HEADING.fullmatch(cell.source):
            yield cell, "is more than one heading '### ...'; give each its own cell"
        titles.append(cell.source)
        wanted = [(f"{cell.id}-{part}", kind) for part, kind in PARTS.items()]
        following = cells[number + 1 : number + 1 + len(wanted)]
        if [(each.id, each.cell_type) for each in following] != wanted:
            names = ", ".join(f"'{id}' ({kind})" for id, kind in wanted)
            yield cell, f"is not followed by the cells {names}"
        elif not CAUSE.fullmatch(following[1].source):
            words = "'**Cause.** ...', a line between, '**Cure.** ... Read on: [...](...#...).'"
            yield following[1], f"is not {words}"
        if titles.count(cell.source) > 1:
            yield cell, "has the heading of another symptom; say where this one is met"


def shown_symptoms(chapter: Chapter, recordings: list[Recording]) -> Broken:
    """Every program has printed the message of its heading, and no cured one an error."""
    for recording in recordings:
        for symptom in symptoms_of(chapter):
            if not {symptom.shown.id, symptom.cured.id} <= recording.cells.keys():
                continue
            shown, cured = (_text(recording, cell) for cell in (symptom.shown, symptom.cured))
            if " ".join(symptom.message.split()) not in " ".join(shown.split()):
                yield symptom.shown, f"does not print the heading's words on {recording.folder}"
            if bool(symptom.message) != bool(ERROR.search(shown)):
                yield symptom.shown, "words of an error stand in the heading as code, others do not"
            if not re.search(r"\w", cured):
                yield symptom.cured, f"prints nothing on {recording.folder}; show what came of it"
            if ERROR.search(cured):
                yield symptom.cured, f"prints an error on {recording.folder}; it is not cured"


def contents(chapter: Chapter) -> str:
    """The symptoms under their groups, as a Markdown list of links."""
    lines = []
    for cell in chapter.notebook.cells:
        if match := re.match(r"(##+) (.+)", cell.source):
            marks, title = match.groups()
            anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            lines.append(f"{'  ' * (len(marks) - 2)}- [{title}](#{anchor})")
    return "\n".join(lines)


def _headings(chapter: Chapter) -> list[NotebookNode]:
    return [cell for cell in chapter.notebook.cells if cell.source.startswith("### ")]


def _text(recording: Recording, cell: NotebookNode) -> str:
    """What a cell printed, as plain text."""
    printed = recording.cells[cell.id].outputs
    return "\n".join(each.get("text") or each.data["text/plain"] for each in printed)
