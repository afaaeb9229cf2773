"""Predictions: asked before the cell that answers them, and given away by nothing.

A prediction is a text cell `predict-<topic>`: a question and, where it helps, its choices as a
list. The next cell shows the answer under the tag `predicted`, which the page covers.
"""

import ast

from nbformat import NotebookNode

from tools.book.cells import Broken, drawn
from tools.book.chapters import PREDICTED, Chapter
from tools.book.code import comments, has_assert, syntax_tree
from tools.book.notebooks import tags

ASKS = "**Predict.** "
PREFIX = "predict-"


def predictions(chapter: Chapter) -> list[NotebookNode]:
    return [cell for cell in chapter.notebook.cells if is_prediction(cell)]


def is_prediction(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and cell.source.startswith(ASKS)


def asked_alone(chapter: Chapter) -> Broken:
    for cell in chapter.notebook.cells:
        if cell.cell_type != "markdown":
            continue
        if cell.id.startswith(PREFIX) != is_prediction(cell):
            yield (
                cell,
                f"a prediction begins with '{ASKS.strip()}', and its cell is called {PREFIX}...",
            )
        if cell.source.count("**Predict") > is_prediction(cell):
            yield cell, f"'**Predict' within a text; give it a cell {PREFIX}... of its own"


def choices_can_be_buttons(chapter: Chapter) -> Broken:
    """The page makes buttons of the choices, which are of one line, and no two alike."""
    for cell in predictions(chapter):
        page = drawn(cell)
        kinds = [tag.name for tag in page(True, recursive=False)]
        if kinds not in (["p"], ["p", "ul"]):
            yield cell, f"holds {', '.join(kinds)}; one paragraph, then at most one list of choices"
            continue
        items = page("li")
        texts = [" ".join(item.get_text().split()) for item in items]
        if len({"", *texts}) <= len(texts):
            yield cell, f"empty or equal choices: {texts}; make each another"
        if any("\n" in item.get_text().strip() or item(["p", "ul", "pre"]) for item in items):
            yield cell, "a choice of several lines; write '- ' and one line for each"
        if any(item("strong") for item in items):
            yield cell, "a choice in bold gives the answer away; mark none"


def answered_next(chapter: Chapter) -> Broken:
    """The next cell shows the thing itself, with no assert and no comment to give it away."""
    cells = chapter.notebook.cells
    for before, cell, following in zip([None, *cells], cells, [*cells[1:], None], strict=False):
        if is_prediction(cell) and not (following and PREDICTED in tags(following)):
            yield (
                cell,
                "the next cell does not answer it; put the code that does there, with the tag "
                f"'{PREDICTED}'",
            )
        if PREDICTED not in tags(cell):
            continue
        if cell.cell_type != "code" or before is None or not is_prediction(before):
            yield cell, f"has the tag '{PREDICTED}' and no prediction above it; drop it, or ask"
            continue
        tree = syntax_tree(chapter, cell)
        if has_assert(tree):
            yield cell, "asserts what was asked; assert it in the next code cell"
        if found := comments(cell):
            yield cell, f"a comment may give the answer away: '{found[0]}'; say it afterwards"
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            yield cell, "shows nothing; end it in an expression, the thing that was asked"


PREDICTION_RULES = (asked_alone, choices_can_be_buttons, answered_next)
