"""Text cells as notebook programs draw them, and what a rule says of a cell."""

from collections.abc import Iterator

from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from nbformat import NotebookNode

MARKDOWN = MarkdownIt(
    "commonmark"
)  # HTML up to a blank line, then Markdown: as Jupyter draws it

Broken = Iterator[
    tuple[NotebookNode | None, str]
]  # the cell, if it is one's, and the line


def drawn(cell: NotebookNode | None) -> BeautifulSoup:
    """A text cell as HTML; none is empty."""
    return BeautifulSoup(MARKDOWN.render(cell.source if cell else ""), "html.parser")
