"""Links to the book's own pages: absolute in notebooks, which travel; relative within the site.

A notebook that was downloaded, or opened in Colab, has no other page beside it. So chapters name
the pages of the published site by their whole addresses. What draws or translates a page turns
those into links between files again, which Sphinx checks, headings included.
"""

import posixpath
import re
from collections.abc import Callable
from copy import deepcopy

from nbformat import NotebookNode

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.grammar import LINKS_CELL
from tools.book.repository import Repository

HERE = "notebooks"  # the folder that relative links in chapters start from
NOTEBOOK = ".ipynb"
PROSE = ".md"
PAGE = ".html"

# Code, in which nothing is a link, or where a link leads. Of figures and of what has a scheme
# (`https:`, `data:`) `target` holds nothing.
LINK = re.compile(
    r"(?s:```.*?```)|`[^`\n]*`|!\[[^\]]*\]\([^)]*\)"
    r"|(?<=\]\()(?P<target>(?![a-z]+:)[^)\s]+)(?=\))"
)


def absolute_links(text: str, chapter: str, repository: Repository) -> str:
    """Return the text of a chapter with whole addresses in place of its relative links.

    A page of the site is named there, any other file of the book in its repository.
    """

    def absolute(match: re.Match) -> str:
        if match["target"] is None:
            return match[0]
        path, sharp, anchor = match["target"].partition("#")
        path = posixpath.normpath(f"{HERE}/{path or chapter + NOTEBOOK}")
        page, suffix = posixpath.splitext(path)
        if suffix in (NOTEBOOK, PROSE):
            return f"{repository.site}{page}{PAGE}{sharp}{anchor}"
        return f"{repository.url}/blob/{repository.branch}/{path}{sharp}{anchor}"

    return LINK.sub(absolute, text)


def relative_links(text: str, chapter: str, book: Book) -> str:
    """Return the text of a chapter with links to files in place of addresses of the site."""
    if "://" not in text:  # a book without such links may have no site
        return text
    site = re.escape(book.repository.site)
    address = re.compile(
        rf"(?<=\]\(){site}(?P<page>[\w/.-]+){PAGE}(?P<anchor>#[^)\s]*)?"
    )

    def relative(match: re.Match) -> str:
        page, anchor = match["page"], match["anchor"] or ""
        if page not in book.documents:
            return match[0]
        if page == f"{HERE}/{chapter}":
            return anchor or f"{chapter}{NOTEBOOK}"
        is_prose = (book.root / f"{page}{PROSE}").is_file()
        path = page + (PROSE if is_prose else NOTEBOOK)
        return posixpath.relpath(path, HERE) + anchor

    return address.sub(relative, text)


def relative_targets(text: str) -> list[str]:
    """Return where the relative links of a text lead."""
    return [match["target"] for match in LINK.finditer(text) if match["target"]]


def with_texts(chapter: Chapter, change: Callable[[str], str]) -> Chapter:
    """Return a chapter whose texts are changed, but for its row of links."""
    notebook = deepcopy(chapter.notebook)
    for cell in notebook.cells:
        if is_text(cell):
            cell.source = change(cell.source)
    return Chapter(chapter.name, notebook)


def is_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and cell.id != LINKS_CELL
