"""The code of a chapter's cells as Python reads it."""

import ast

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from tools.errors import BookError
from tools.source.chapters import Chapter


def syntax_tree(chapter: Chapter, cell: NotebookNode) -> ast.Module:
    """The code of a cell as a syntax tree, its magics turned into calls.

    Raises BookError if it is no Python.
    """
    try:
        return ast.parse(TransformerManager().transform_cell(cell.source))
    except SyntaxError as error:
        raise BookError(
            f"{chapter.where}: the cell '{cell.id}' is no Python ({error.msg}, line "
            f"{error.lineno}); correct it there"
        ) from None
