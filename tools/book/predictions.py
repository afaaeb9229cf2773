"""Predictions: a question, the cell that answers it, and a text that explains the answer.

A prediction is a text cell `predict-<topic>`: a question and, where it helps, its choices as a
list. The next cell shows the answer under the tag `predicted`. Then, perhaps after checks, a
text cell `answer-<topic>` explains it in `<details class="answer">`. Where there are choices, it
begins with the right one: `**The second.** `. The page covers everything from the output to the
next heading.
"""

from dataclasses import dataclass
from functools import cached_property

from bs4 import BeautifulSoup, Tag
from nbformat import NotebookNode

from tools.book.cells import cell_html
from tools.book.chapters import Chapter
from tools.book.grammar import (
    ANSWER,
    CHECKS,
    MACHINERY,
    PREDICT,
    QUESTION,
    answer_text,
    right_choice,
)
from tools.book.notebooks import tags


@dataclass(frozen=True)
class Prediction:
    """One prediction of a chapter: the cell that asks, and the text that explains, if any."""

    question: NotebookNode
    answer: NotebookNode | None

    @cached_property
    def question_html(self) -> BeautifulSoup:
        return cell_html(self.question)

    @cached_property
    def choices(self) -> list[Tag]:
        return self.question_html.find_all("li")

    @property
    def right_choice(self) -> int | None:
        """The index of the choice that the answer names, or None."""
        return right_choice(self.explanation) if self.answer else None

    @property
    def explanation(self) -> str:
        """The text of the answer, without the `<details>` around it."""
        if self.answer is None:
            return ""
        text = answer_text(self.answer.source)
        return self.answer.source if text is None else text


def predictions(chapter: Chapter) -> list[Prediction]:
    """Return the predictions of a chapter, in order."""
    cells = chapter.notebook.cells
    predictions = []
    for index, cell in enumerate(cells):
        if is_question(cell):
            answer = _answer(cell, cells[index + 2 :])
            predictions.append(Prediction(cell, answer))
    return predictions


def is_question(cell: NotebookNode) -> bool:
    """Return whether a cell asks for a prediction."""
    return cell.cell_type == "markdown" and cell.source.startswith(PREDICT)


def _answer(
    question: NotebookNode, following: list[NotebookNode]
) -> NotebookNode | None:
    for cell in following:
        if not {CHECKS, MACHINERY} & set(tags(cell)):
            answer_id = question.id.replace(QUESTION, ANSWER, 1)
            return cell if cell.id == answer_id else None
    return None
