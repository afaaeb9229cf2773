"""The Sphinx extension of this book: chapters with their outputs, tables of facts, the theme.

It uses Sphinx's documented events only: `source-read` replaces a chapter's text by the
chapter merged with its outputs, `html-page-context` describes a page.
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

from tools.book.book import Book
from tools.book.length import length
from tools.languages.edition import Edition
from tools.site import speech
from tools.site.calculators import shares_table
from tools.site.frameworks import whole_page
from tools.site.speech import tr
from tools.site.status import chapters_table, exercises_table

# The extensions that come with this one.
BROUGHT = (
    *("assets", "formulas", "tabs", "frameworks", "folds", "covers", "theme", "images"),
    *("timeline", "calculators", "front", "overview", "outcomes", "moved", "languages"),
)
TABLES = {
    "status-chapters": chapters_table,
    "status-exercises": exercises_table,
    "status-scaling": shares_table,
}


def setup(app: Sphinx) -> None:
    for name in BROUGHT:
        app.setup_extension(f"tools.site.{name}")
    for name in TABLES:
        app.add_directive(name, FactsTable)
    app.connect("source-read", show_outputs)
    app.connect("doctree-read", say_english)
    app.connect(
        "doctree-read", number_chapters, priority=200
    )  # before titles are collected
    app.connect("html-page-context", describe_page)


@cache  # a process builds one site, of files that do not change meanwhile
def read_pages(root: Path) -> tuple[Book, dict[str, NotebookNode]]:
    language = speech.spoken()
    book = Edition(root, language=language) if language else Book(root)
    return book, {name: whole_page(name, book) for name in book.pages}


def show_outputs(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the text of a chapter by its page, the chapter with its outputs, and any text by its
    translation."""
    path, (book, pages) = Path(app.env.doc2path(docname)), read_pages(Path(app.srcdir))
    if path.suffix == ".ipynb":
        source[0] = nbformat.writes(pages[path.stem])
    elif speech.spoken():
        source[0] = book.text(docname, source[0])


def say_english(app: Sphinx, doctree: nodes.document) -> None:
    """Let a page that has no translation say so below its title."""
    book, _ = read_pages(Path(app.srcdir))
    if speech.spoken() and app.env.docname not in book.translated:
        note = nodes.paragraph(
            "", tr("This page is in English."), classes=["in-english"]
        )
        doctree[0].insert(1, note)


def number_chapters(app: Sphinx, doctree: nodes.document) -> None:
    """Number the lessons of the sidebar from 0, and say how long each takes."""
    book, _ = read_pages(Path(app.srcdir))
    lessons = [chapter for chapter in book.pages.values() if chapter.kind == "lesson"]
    times = {
        name: length(lesson).minutes for name, lesson in english(book).pages.items()
    }
    comma = speech.punctuated(", ")
    titles = {
        f"notebooks/{lesson.name}": (
            f"{number} {lesson.title}{comma}{times[lesson.name]}\xa0{tr('min')}"
        )
        for number, lesson in enumerate(lessons)
    }
    for tree in doctree.findall(toctree):
        tree["caption"] = tree["caption"] and tr(tree["caption"])
        tree["entries"] = [
            (titles.get(name, title), name) for title, name in tree["entries"]
        ]


def english(book: Book) -> Book:
    return book.english if isinstance(book, Edition) else book


class FactsTable(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        book, _ = read_pages(Path(self.env.srcdir))
        container = nodes.container(classes=["status"])
        content = StringList(TABLES[self.name](book), source=self.get_source_info()[0])
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
    for paragraph in (
        doctree.findall(nodes.paragraph) if doctree else ()
    ):  # the search has none
        said, of_text = paragraph.astext(), isinstance(paragraph.parent, nodes.section)
        if of_text and not said.startswith(tr("How long.")):
            text = escape(textwrap.shorten(said, 160, placeholder=" ..."))
            context["metatags"] += f'\n<meta name="description" content="{text}">'
            return
