"""Exercises: asked, answered and checked in the notebook, with hints, solution and wrong answer.

Exercise N is the text cell `exercise-N`, the code cells `answer-N`, which says that there is no
answer yet, and `holds-N` (then `holds-N-more`), which asserts what must hold once there is one,
and the text cell `solution-N`, where a solution and a wrong answer are folded. Between the answer
and its check there may be `shows-N`, which draws what the answer does, or what was given. In the
notebook of puzzles an exercise is called a puzzle.

`make release` writes all of them from the chapter's master, and `tools.nbval_exercises` tries
them: hence there are few rules on them.
"""

from dataclasses import dataclass

from nbformat import NotebookNode

from tools.book.cells import cell_html
from tools.book.chapters import Chapter
from tools.book.grammar import EXERCISE_PART


@dataclass(frozen=True)
class ExerciseCells:
    """The cells of one exercise, in order; a cell that is missing is not among them."""

    number: int
    cells: list[NotebookNode]
    kind: str = "Exercise"  # or "Puzzle"

    @property
    def label(self) -> str:
        return f"{self.kind} {self.number}"

    def parts(self, *kinds: str) -> list[NotebookNode]:
        return [cell for cell in self.cells if cell.id.partition("-")[0] in kinds]

    @property
    def checks(self) -> list[NotebookNode]:
        return self.parts("holds")

    def code(self, kind: str) -> list[str]:
        """Return the code of its solution or wrong answer: `kind` is the class of the details."""
        blocks = []
        for cell in self.parts("solution"):
            blocks += cell_html(cell).select(f"details.{kind} > pre > code")
        return [block.get_text() for block in blocks]


def exercises(chapter: Chapter) -> list[ExerciseCells]:
    """Return the exercises of a chapter, each with its cells."""
    cells_by_number: dict[int, list[NotebookNode]] = {}
    for cell in chapter.notebook.cells:
        if match := EXERCISE_PART.fullmatch(cell.id):
            number = int(match["number"])
            cells_by_number.setdefault(number, []).append(cell)

    kind = "Puzzle" if chapter.holds_puzzles else "Exercise"
    numbered = [
        ExerciseCells(number, cells, kind) for number, cells in cells_by_number.items()
    ]
    return [exercise for exercise in numbered if exercise.parts("exercise")]
