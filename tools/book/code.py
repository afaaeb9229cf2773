"""The code of a chapter's cells as Python reads it."""

import ast
import io
import tokenize

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from tools.book.chapters import Chapter
from tools.errors import BookError


def parsed(source: str) -> ast.Module:
    """Code as a syntax tree, its magics turned into calls. Raises SyntaxError."""
    try:
        return ast.parse(source)  # most code has none, and this is five times as fast
    except SyntaxError:
        return ast.parse(TransformerManager().transform_cell(source))


def syntax_tree(chapter: Chapter, cell: NotebookNode) -> ast.Module:
    try:
        return parsed(cell.source)
    except SyntaxError as error:
        fault = (
            f"is not valid Python ({error.msg}, line {error.lineno}); correct it there"
        )
        raise BookError(f"{chapter.where}: the cell '{cell.id}' {fault}") from None


def has_assert(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def blank_name(tree: ast.Module) -> str | None:
    """The name that code gives the value `...`, in its last statement and nowhere else."""
    given = [node for node in tree.body if isinstance(node, ast.Assign)]
    blanks = [node for node in given if ast.unparse(node.value) == "..."]
    if (
        len(blanks) != 1
        or blanks[0] is not tree.body[-1]
        or len(blanks[0].targets) != 1
    ):
        return None
    [target] = blanks[0].targets
    return target.id if isinstance(target, ast.Name) else None


def comments(cell: NotebookNode) -> list[str]:
    lines = io.StringIO(TransformerManager().transform_cell(cell.source)).readline
    tokens = tokenize.generate_tokens(lines)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
