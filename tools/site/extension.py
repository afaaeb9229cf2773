"""The Sphinx extension of this book: chapters with their outputs, tables of facts, the theme.

It hooks into events that Sphinx documents: `source-read` replaces a chapter's text by its
page, `doctree-read` arranges what MyST-NB has made of that, and `html-page-context`
completes the HTML. The site is always built whole, so no page declares what it depends on.
"""

import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from markupsafe import escape
from nbformat import NotebookNode
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools.book.addresses import is_text, relative_links
from tools.book.book import Book
from tools.book.grammar import Kind
from tools.book.length import length
from tools.site import (
    drawings,
    folds_and_covers,
    frameworks,
    front,
    languages,
    models,
    outputs,
    parts,
    reference,
    theme,
    timeline,
)
from tools.site.languages import punctuated, read_book, spoken, tr
from tools.site.status import chapters_table, exercises_table

# What draws the parts of a page, in the order in which their styles and scripts are loaded.
PARTS = (
    parts,
    outputs,
    frameworks,
    folds_and_covers,
    theme,
    drawings,
    timeline,
    models,
    front,
    reference,
    languages,
)
TABLES = {
    "status-chapters": chapters_table,
    "status-exercises": exercises_table,
    "status-scaling": models.shares_table,
}
DESCRIPTION_LENGTH = 160  # letters of which search engines show no more


def setup(app: Sphinx) -> None:
    for module in PARTS:
        module.setup(app)
    for name in TABLES:
        app.add_directive(name, FactsTable)
    app.connect("source-read", replace_source)
    app.connect("doctree-read", say_english)
    # Before titles are collected.
    app.connect("doctree-read", number_chapters, priority=200)
    app.connect("html-page-context", describe_page)


@cache  # a process draws one site, and its files do not change meanwhile
def read_pages(root: Path) -> dict[str, NotebookNode]:
    """Return the page of every chapter, as a notebook for MyST-NB. Raises BookError."""
    book = read_book(root)
    pages = {}
    for name in book.pages:
        notebook = frameworks.whole_page(name, book)
        for cell in notebook.cells:
            if is_text(cell):
                cell.source = relative_links(cell.source, name, book)
        pages[name] = notebook
    return pages


def replace_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace a chapter by its page, and other texts by their translation."""
    root = Path(app.srcdir)
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        source[0] = nbformat.writes(read_pages(root)[path.stem])
    elif not spoken().is_english:
        source[0] = read_book(root).text(docname, source[0])


def say_english(app: Sphinx, doctree: nodes.document) -> None:
    """Let a page that has no translation say so below its title."""
    book = read_book(Path(app.srcdir))
    if not book.is_translated(app.env.docname):
        words = tr("This page is in English.")
        doctree[0].insert(1, nodes.paragraph("", words, classes=["in-english"]))


def number_chapters(app: Sphinx, doctree: nodes.document) -> None:
    """Number the lessons of the sidebar from 0, and say how long each takes."""
    titles = numbered_titles(read_book(Path(app.srcdir)))
    for tree in doctree.findall(toctree):
        tree["caption"] = tree["caption"] and tr(tree["caption"])
        tree["entries"] = [
            (titles.get(document, title), document)
            for title, document in tree["entries"]
        ]


def numbered_titles(book: Book) -> dict[str, str]:
    comma = punctuated(", ")
    titles = {}
    for chapter in book.pages.values():
        if chapter.kind == Kind.LESSON:
            # A chapter's length is that of its English text.
            minutes = length(book.english.pages[chapter.name]).minutes
            time = f"{minutes}\xa0{tr('min')}"
            title = f"{len(titles)} {chapter.title}{comma}{time}"
            titles[f"notebooks/{chapter.name}"] = title
    return titles


class FactsTable(SphinxDirective):
    """One of TABLES, which are written in Markdown."""

    def run(self) -> list[nodes.Node]:
        lines = TABLES[self.name](read_book(Path(self.env.srcdir)))
        source, _ = self.get_source_info()
        container = nodes.container(classes=["status"])
        content = StringList(lines, source=source)
        self.state.nested_parse(content, self.content_offset, container)
        return [container]


def describe_page(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give search engines the first paragraph of the page as its description."""
    if doctree is None:  # the page of the search
        return
    for paragraph in doctree.findall(nodes.paragraph):
        words = paragraph.astext()
        is_text = isinstance(paragraph.parent, nodes.section)
        if is_text and not words.startswith(tr("How long.")):
            words = textwrap.shorten(words, DESCRIPTION_LENGTH, placeholder=" ...")
            tag = f'<meta name="description" content="{escape(words)}">'
            context["metatags"] += f"\n{tag}"
            return
