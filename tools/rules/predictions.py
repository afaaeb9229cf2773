"""Predictions: asked before the cell that answers them, and given away by nothing.

A prediction is a text cell `predict-<topic>`: a question and, where it helps, its choices as a
list. The next cell shows the answer under the tag `predicted`. Then, perhaps after machinery, a
text cell `answer-<topic>` explains it; where there are choices, it begins with the right one:
`**The second.** `. The page covers both.
"""

import ast
import re
from collections.abc import Sequence

from nbformat import NotebookNode

from tools.book.cells import Broken, drawn
from tools.book.chapters import PREDICTED, Chapter
from tools.book.code import comments, has_assert, syntax_tree
from tools.book.notebooks import tags
from tools.rules.length import MACHINERY, path

ASKS = "**Predict.** "
PREFIX, ANSWER = "predict-", "answer-"
CHOICES = ("The first.", "The second.", "The third.", "The fourth.")
SMALL = {*"and are but for has its not than that the with".split()}


def is_prediction(cell: NotebookNode | None) -> bool:
    return bool(cell) and cell.cell_type == "markdown" and cell.source.startswith(ASKS)


def asked_alone(chapter: Chapter) -> Broken:
    for cell in (
        cell for cell in chapter.notebook.cells if cell.cell_type == "markdown"
    ):
        if cell.id.startswith(PREFIX) != is_prediction(cell):
            yield (
                cell,
                f"a prediction begins with '{ASKS.strip()}', its cell is called {PREFIX}...",
            )
        if cell.source.count("**Predict") > is_prediction(cell):
            yield (
                cell,
                f"'**Predict' within a text; give it a cell {PREFIX}... of its own",
            )


def choices_can_be_buttons(chapter: Chapter) -> Broken:
    """The page makes buttons of the choices, which are of one line, and no two alike."""
    for cell in filter(is_prediction, chapter.notebook.cells):
        page = drawn(cell)
        kinds = [tag.name for tag in page(True, recursive=False)]
        if kinds not in (["p"], ["p", "ul"]):
            yield (
                cell,
                f"holds {', '.join(kinds)}; one paragraph, then at most one list of choices",
            )
            continue
        items = page("li")
        texts = [" ".join(item.get_text().split()) for item in items]
        if len({"", *texts}) <= len(texts):
            yield cell, f"empty or equal choices: {texts}; make each another"
        if any(
            "\n" in item.get_text().strip() or item(["p", "ul", "pre"])
            for item in items
        ):
            yield cell, "a choice of several lines; write '- ' and one line for each"
        if any(item("strong") for item in items):
            yield cell, "a choice in bold gives the answer away; mark none"


def answered_next(chapter: Chapter) -> Broken:
    """The next cell shows the thing itself, with no assert and no comment to give it away."""
    cells = chapter.notebook.cells
    for before, cell, following in zip(
        [None, *cells], cells, [*cells[1:], None], strict=False
    ):
        if is_prediction(cell) and not (following and PREDICTED in tags(following)):
            yield (
                cell,
                f"the next cell does not answer it; tag the code that does '{PREDICTED}'",
            )
        if PREDICTED not in tags(cell):
            continue
        if cell.cell_type != "code" or not is_prediction(before):
            yield (
                cell,
                f"has the tag '{PREDICTED}' and no prediction above it; drop it, or ask",
            )
            continue
        tree = syntax_tree(chapter, cell)
        if has_assert(tree):
            yield cell, "asserts what was asked; assert it in the next code cell"
        if found := comments(cell):
            yield (
                cell,
                f"a comment may give the answer away: '{found[0]}'; say it afterwards",
            )
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            yield (
                cell,
                "shows nothing; end it in an expression, the thing that was asked",
            )


def right_choice(answer: str, choices: Sequence[str] = CHOICES) -> int | None:
    """The place, from 0, of the choice that the text of an answer names."""
    begins = answer.removeprefix("**").startswith
    return next((place for place, choice in enumerate(choices) if begins(choice)), None)


def answer_of(chapter: Chapter, asked: NotebookNode) -> NotebookNode | None:
    cells = chapter.notebook.cells
    following = cells[cells.index(asked) + 2 :]
    cell = next((cell for cell in following if MACHINERY not in tags(cell)), None)
    return cell if cell and cell.id == asked.id.replace(PREFIX, ANSWER, 1) else None


def explained(chapter: Chapter) -> Broken:
    """Each is answered in words, and one of its choices is named as the right one."""
    for cell in filter(is_prediction, chapter.notebook.cells):
        answer, choices = answer_of(chapter, cell), len(drawn(cell)("li"))
        if answer is None:
            yield (
                cell,
                f"no answer; write it below what it printed, in a text cell {ANSWER}...",
            )
        elif right_choice(answer.source) not in (range(choices) if choices else [None]):
            begins = (
                "'**The second.** ' or its like" if choices else "the reason: no choice"
            )
            yield (
                answer,
                f"names none of the {choices} choices; let it begin with {begins}",
            )


def not_given_away(chapter: Chapter) -> Broken:
    """No text above a prediction, in its section, holds what sets apart its right choice alone."""
    cells = [*path(chapter)]
    for cell in filter(is_prediction, cells):
        if not (answer := answer_of(chapter, cell)):
            continue
        choices = [_words(item.get_text()) for item in drawn(cell)("li")]
        right = right_choice(answer.source) if choices else 0
        told = choices or [
            _figures(answer.source.partition(". ")[0]) - _figures(cell.source)
        ]
        if right is None or right >= len(told):
            continue
        alone = [
            part - set().union(*told[:n], *told[n + 1 :]) for n, part in enumerate(told)
        ]
        for text in _above(cells, cell):
            held = [part <= _words(text.source) for part in alone if part]
            if alone[right] and alone[right] <= _words(text.source) and sum(held) == 1:
                words = ", ".join(sorted(alone[right]))
                yield (
                    cell,
                    f"'{text.id}' above it gives the answer away: {words}; say it below",
                )


def _above(cells: list[NotebookNode], asked: NotebookNode) -> list[NotebookNode]:
    above = [
        cell for cell in cells[: cells.index(asked)] if cell.cell_type == "markdown"
    ]
    heads = [place for place, cell in enumerate(above) if cell.source.startswith("#")]
    return above[heads[-1] :] if heads else above


def _words(text: str) -> set[str]:
    return {
        word.lower() for word in re.findall(r"[a-zA-Z]{3,}", text)
    } - SMALL | _figures(text)


def _figures(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


PREDICTION_RULES = (
    asked_alone,
    choices_can_be_buttons,
    answered_next,
    explained,
    not_given_away,
)
