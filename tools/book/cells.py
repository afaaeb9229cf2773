"""What a cell says: a text as HTML, and code as Python reads it."""

import ast
import io
import tokenize

from bs4 import BeautifulSoup
from IPython.core.inputtransformer2 import TransformerManager
from markdown_it import MarkdownIt
from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.errors import BookError

# Without extensions, as Jupyter draws it: HTML up to a blank line, then Markdown.
MARKDOWN = MarkdownIt("commonmark")


def cell_html(cell: NotebookNode) -> BeautifulSoup:
    """Return a text cell as the HTML that a notebook program shows."""
    return BeautifulSoup(MARKDOWN.render(cell.source), "html.parser")


def parse_code(source: str) -> ast.Module:
    """Return code as a syntax tree, its magics turned into calls. Raises SyntaxError."""
    try:
        # Most code has no magics, and this is five times as fast as transforming it.
        return ast.parse(source)
    except SyntaxError:
        return ast.parse(TransformerManager().transform_cell(source))


def syntax_tree(chapter: Chapter, cell: NotebookNode) -> ast.Module:
    """Return the syntax tree of a cell, or raise BookError if it is not Python."""
    try:
        return parse_code(cell.source)
    except SyntaxError as error:
        reason = f"{error.msg}, line {error.lineno}"
        raise BookError(
            chapter.where,
            f"the cell '{cell.id}' is not valid Python ({reason})",
            "correct it there",
        ) from None


def has_assert(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def blank_name(tree: ast.Module) -> str | None:
    """Return the name that code sets to `...` in its last statement and nowhere else."""
    blanks = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "..."
    ]
    if len(blanks) != 1 or blanks[0] is not tree.body[-1]:
        return None
    targets = blanks[0].targets
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return None
    return targets[0].id


def comments(cell: NotebookNode) -> list[str]:
    """Return the comments in a code cell."""
    code = TransformerManager().transform_cell(cell.source)
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
