"""What the notebooks of the page *What raises, what copies, what moves silently* keep to."""

from tools.book.cells import Fault, Faults
from tools.book.chapters import Chapter
from tools.book.outcomes import VERBS, operations_of, verb, words
from tools.book.recordings import Recording


def shown_outcomes(chapter: Chapter, recordings: list[Recording]) -> Faults:
    """Each operation has a program, and that says what happened in one of VERBS."""
    cells = {cell.id: cell for cell in chapter.code_cells}
    for operation in operations_of(chapter):
        if operation.id not in cells:
            missing = f"no code cell '{operation.id}' for '{operation.title}'"
            yield Fault(None, f"{missing}; add it")
            continue
        for recording in recordings:
            recorded = recording.current_cells.get(operation.id)
            if recorded and verb(words(recorded)) not in VERBS:
                outcome = f"says '{words(recorded)}' on {recording.folder}"
                advice = f"begin with {', '.join(VERBS)}"
                yield Fault(cells[operation.id], f"{outcome}; {advice}")
