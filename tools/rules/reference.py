"""What the notebooks of the two reference pages keep to, which `tools.book.reference` describes."""

import re

from nbformat import NotebookNode

from tools.book.chapters import Chapter, Fault, Faults
from tools.book.grammar import ENTRY, SYMPTOM_PARTS
from tools.book.notebooks import printed_text
from tools.book.recordings import Recording
from tools.book.reference import (
    VERBS,
    Symptom,
    operations_of,
    outcome_of,
    symptoms_of,
    verb_of,
)

CAUSE = re.compile(
    r"\*\*Cause\.\*\* \S.*\n\n\*\*Fix\.\*\* \S.* Read on: \[[^]]+\]\([^)#]+#[^)]+\)\.",
    re.DOTALL,
)
CAUSE_FORM = "'**Cause.** ...', a line between, '**Fix.** ... Read on: [...](...#...).'"
QUOTED = re.compile(
    r"\*\*Quoted\*\* from \[[^]]+\]\(https://[^)]+\).*\n\n```text\n(.+)\n```", re.DOTALL
)
QUOTED_FORM = (
    "'**Quoted** from [...](https://...).', and in a block the heading's words"
)
ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Warning): ", re.MULTILINE)
TEXTS = ("cause",)  # the parts that no program makes


def whole_symptoms(chapter: Chapter) -> Faults:
    """Each symptom has its four cells, in order, with its cause, its fix and a link."""
    cells = chapter.notebook.cells
    headings = []
    for index, cell in enumerate(cells):
        if not cell.source.startswith(ENTRY):
            continue
        if "\n" in cell.source:
            yield Fault(
                cell, "is more than a heading", "give the rest a cell of its own"
            )
        following = cells[index + 1 :][: len(SYMPTOM_PARTS)]
        yield from _whole_symptom(cell, following)
        if cell.source in headings:
            yield Fault(
                cell, "has the heading of another symptom", "say where this one is met"
            )
        headings.append(cell.source)


def _whole_symptom(heading: NotebookNode, following: list[NotebookNode]) -> Faults:
    quoted = bool(following) and following[0].cell_type == "markdown"
    wanted = []
    for part in SYMPTOM_PARTS:
        kind = "markdown" if quoted or part in TEXTS else "code"
        wanted.append((f"{heading.id}-{part}", kind))
    parts = [(cell.id, cell.cell_type) for cell in following]
    if parts != wanted:
        names = ", ".join(f"'{id}' ({kind})" for id, kind in wanted)
        yield Fault(heading, f"is not followed by the cells {names}")
        return

    symptom = Symptom(heading, *following)
    if not CAUSE.fullmatch(symptom.cause.source):
        yield Fault(symptom.cause, f"is not {CAUSE_FORM}")
    elif quoted and not _quotes_its_message(symptom):
        yield Fault(symptom.shown, f"is not {QUOTED_FORM}")


def _quotes_its_message(symptom: Symptom) -> bool:
    match = QUOTED.fullmatch(symptom.shown.source)
    if match is None or not symptom.message:
        return False
    return symptom.message in _on_one_line(match[1])


def shown_symptoms(chapter: Chapter, recordings: list[Recording]) -> Faults:
    """Each symptom was produced, and its fix works, wherever its cells were recorded."""
    for recording in recordings:
        for symptom in symptoms_of(chapter):
            if {symptom.shown.id, symptom.cured.id} <= recording.current_cells.keys():
                yield from _shown_symptom(symptom, recording)


def _shown_symptom(symptom: Symptom, recording: Recording) -> Faults:
    shown = _printed(recording, symptom.shown)
    cured = _printed(recording, symptom.cured)
    place = f"on {recording.folder}"
    if _on_one_line(symptom.message) not in _on_one_line(shown):
        yield Fault(symptom.shown, f"does not print the heading's words {place}")
    if bool(symptom.message) != bool(ERROR.search(shown)):
        words = "words of an error stand in the heading as code, others do not"
        yield Fault(symptom.shown, words)
    if not re.search(r"\w", cured):
        yield Fault(symptom.cured, f"prints nothing {place}", "show what came of it")
    if ERROR.search(cured):
        yield Fault(symptom.cured, f"prints an error {place}", "it is not fixed")


def _printed(recording: Recording, cell: NotebookNode) -> str:
    """Return what a cell printed, and below it the values that it showed."""
    recorded = recording.current_cells[cell.id]
    values = []
    for output in recorded.outputs:
        if "data" in output:
            values.append(output.data["text/plain"])
    return "\n".join([printed_text(recorded), *values])


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def shown_outcomes(chapter: Chapter, recordings: list[Recording]) -> Faults:
    """Each operation has a program, and that says what happened in one of VERBS."""
    cells = {cell.id: cell for cell in chapter.code_cells}
    for operation in operations_of(chapter):
        if operation.id not in cells:
            words = f"no code cell '{operation.id}' for '{operation.title}'"
            yield Fault(None, words, "add it")
            continue
        for recording in recordings:
            recorded = recording.current_cells.get(operation.id)
            if recorded is None:
                continue
            outcome = outcome_of(recorded)
            if verb_of(outcome) not in VERBS:
                words = f"says '{outcome}' on {recording.folder}"
                advice = f"begin with {', '.join(VERBS)}"
                yield Fault(cells[operation.id], words, advice)
