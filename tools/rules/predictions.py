"""Predictions: asked before the cell that answers them, and given away by nothing.

A prediction is a text cell `predict-<topic>`: a question and, where it helps, its choices as a
list. The next cell shows the answer under the tag `predicted`, and the code cell after it
asserts what must hold.
"""

import ast

from nbformat import NotebookNode

from tools.book.cells import Broken, drawn
from tools.book.chapters import PREDICTED, Chapter
from tools.book.code import comments, has_assert, syntax_tree
from tools.book.notebooks import tags

ASKS = "**Predict.** "
PREFIX = "predict-"
FEWEST, MOST = 2, 4  # choices of a prediction that has any


def predictions(chapter: Chapter) -> list[NotebookNode]:
    """The cells that ask for a prediction."""
    return [cell for cell in chapter.notebook.cells if is_prediction(cell)]


def is_prediction(cell: NotebookNode) -> bool:
    """True for a text cell that asks for a prediction."""
    return cell.cell_type == "markdown" and cell.source.startswith(ASKS)


def asked_alone(chapter: Chapter) -> Broken:
    """A prediction has a cell to itself, which is called `predict-...`."""
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


def can_be_wrong(chapter: Chapter) -> Broken:
    """It is one paragraph that ends in a question mark, then the choices, if any, and no more."""
    for cell in predictions(chapter):
        page = drawn(cell)
        kinds = [tag.name for tag in page(True, recursive=False)]
        if not page.p.get_text().rstrip().endswith("?"):
            yield cell, "its paragraph does not end in a question mark; ask what can be wrong"
        if kinds not in (["p"], ["p", "ul"]):
            yield cell, f"holds {', '.join(kinds)}; one paragraph, then at most one list of choices"
            continue
        items = page("li")
        texts = [" ".join(item.get_text().split()) for item in items]
        if items and not FEWEST <= len(items) <= MOST:
            yield cell, f"{len(items)} choices; give {FEWEST} to {MOST}, or none"
        if "" in texts or len(set(texts)) < len(texts):
            yield cell, f"empty or equal choices: {texts}"
        if any("\n" in item.get_text().strip() or item(["p", "ul", "pre"]) for item in items):
            yield cell, "a choice of several lines; write '- ' and one line for each"
        if any(item("strong") for item in items):
            yield cell, "a choice in bold; none is marked"


def answered_next(chapter: Chapter) -> Broken:
    """The next cell shows the thing itself, with no assert and no comment to give it away."""
    cells = chapter.notebook.cells
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if is_prediction(cell) and not answers(following):
            yield (
                cell,
                "the next cell does not answer it; put the code that does there, with the tag "
                f"'{PREDICTED}'",
            )
    for before, cell in zip([None, *cells], cells, strict=False):
        if PREDICTED not in tags(cell):
            continue
        if before is None or not is_prediction(before) or cell.cell_type != "code":
            yield cell, f"has the tag '{PREDICTED}' and no prediction above it; drop it, or ask"
        if cell.cell_type != "code":
            continue
        tree = syntax_tree(chapter, cell)
        if has_assert(tree):
            yield cell, "asserts what was asked; assert it in the next code cell"
        if found := comments(cell):
            yield cell, f"a comment may give the answer away: '{found[0]}'; say it afterwards"
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            yield cell, "shows nothing; end it in an expression, the thing that was asked"
        elif tells_truth(tree.body[-1].value):
            yield cell, "shows True or False; show the thing itself, and assert it afterwards"


def answers(cell: NotebookNode | None) -> bool:
    """True for a code cell that answers a prediction."""
    return cell is not None and cell.cell_type == "code" and PREDICTED in tags(cell)


def tells_truth(value: ast.expr) -> bool:
    """True for a comparison of values; `a is b` asks for nothing else."""
    if isinstance(value, ast.BoolOp):
        return True
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    identity = ast.Is, ast.IsNot
    return isinstance(value, ast.Compare) and not all(isinstance(op, identity) for op in value.ops)


def asserted_after(chapter: Chapter) -> Broken:
    """The code cell after it, with one text cell between at most, asserts what must hold."""
    cells = chapter.notebook.cells
    for place, cell in enumerate(cells):
        if PREDICTED not in tags(cell) or cell.cell_type != "code":
            continue
        following = [each for each in cells[place + 1 : place + 3] if each.cell_type == "code"]
        if not following or not has_assert(syntax_tree(chapter, following[0])):
            yield (
                cell,
                "the next code cell asserts nothing of it; assert there what must hold, with one "
                "text cell between at most",
            )


PREDICTION_RULES = (asked_alone, can_be_wrong, answered_next, asserted_after)
