"""A page of a chapter in several frameworks: common text once, all else in a block for each.

`book/static/frameworks.js` shows the blocks of one framework, which a switch chooses. Without it
all are seen, one below the other, each under the name of its framework.
"""

import shutil
from itertools import chain
from pathlib import Path

from docutils import nodes
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx

from tools.book.book import Book
from tools.book.chapters import FRAMEWORKS
from tools.book.frameworks import open_sections, unlike
from tools.book.grammar import PREDICTED
from tools.errors import BookError
from tools.site.assets import load_where, part
from tools.site.merge import chapter_page
from tools.site.templates import render

BLOCK, SECTION, END = (
    "block",
    "section",
    "end",
)  # marks, as comments in the text of a page


def setup(app: Sphinx) -> None:
    app.connect(
        "doctree-read", gather, priority=300
    )  # before links, tabs and folds are drawn
    app.connect("build-finished", add_downloads)
    load_where(app, '<fieldset class="frameworks"', "frameworks.css", "frameworks.js")


def whole_page(name: str, book: Book) -> NotebookNode:
    """The page of a chapter, in every framework. Raises BookError if their cells do not agree."""
    first, *others = book.editions(name)
    for other in others:
        for cell, fault in chain(
            unlike(other, first), open_sections(other), open_sections(first)
        ):
            place = f": '{cell.id}'" if cell else ""
            raise BookError(f"{other.where}{place}: {fault}")
    pages = {
        chapter.framework: chapter_page(chapter, book) for chapter in (first, *others)
    }
    return joined(pages) if others else pages[first.framework]


def joined(pages: dict[str, NotebookNode]) -> NotebookNode:
    """One page of several, with marks that say what is for which framework."""
    texts = (
        [c for c in page.cells if c.cell_type == "markdown"] for page in pages.values()
    )
    common = set.intersection(
        *({(cell.id, cell.source) for cell in page} for page in texts)
    )
    cells = []
    for parts in zip(*(cut(page, common) for page in pages.values()), strict=True):
        cells.append(parts[0][0])
        sections = []  # a heading opens one, which ends at the next common heading
        for framework, (_, *own) in zip(pages, parts, strict=True):
            heads = [
                c.cell_type == "markdown" and c.source.startswith("#") for c in own
            ]
            place = [*heads, True].index(True)
            for cell in own:
                cell.id = f"{cell.id[:50]}__{framework}"
                if PREDICTED in cell.metadata:
                    cell.metadata[PREDICTED] += f"-{framework}"
            if place:
                cells += [mark(BLOCK, framework), *own[:place], mark(END, framework)]
            if place < len(own):
                sections += [own[place], mark(SECTION, framework), *own[place + 1 :]]
        cells += sections
    page = next(iter(pages.values()))
    page.cells = cells
    return page


def cut(page: NotebookNode, common: set[tuple[str, str]]) -> list[list[NotebookNode]]:
    """The cells of a page, cut before each common text; it begins with one, its title."""
    found = []
    for cell in page.cells:
        if (cell.id, cell.source) in common:
            found.append([])
        found[-1].append(cell)
    return found


def mark(kind: str, framework: str) -> NotebookNode:
    return new_markdown_cell(f"% {kind} {framework}")


def gather(app: Sphinx, doctree: nodes.document) -> None:
    """Put what stands between two marks into a block, and the switch above the first."""
    labels, first = {}, None
    for comment in [*doctree.findall(nodes.comment)]:
        kind, _, framework = comment.astext().partition(" ")
        if kind not in (BLOCK, SECTION) or framework not in FRAMEWORKS:
            continue
        parent, classes = comment.parent, ["framework", framework]
        label = labels[framework] = FRAMEWORKS[framework]
        name = nodes.paragraph("", label, classes=["framework-name"])
        if kind == SECTION:
            parent["classes"] += classes
            comment.replace_self(name)
        else:
            start = parent.index(comment)
            texts = [isinstance(n, nodes.comment) and n.astext() for n in parent]
            end = texts.index(f"{END} {framework}", start)
            block = nodes.container("", name, *parent[start + 1 : end], classes=classes)
            id = f"{parent['ids'][0]}-{framework}"
            if (
                id not in doctree.ids
            ):  # the section's first, to which the table of outcomes leads
                doctree.ids[id] = block
                block["ids"] = [id]
            parent[start : end + 1] = [block]
            first = first or block
    if first:
        switch = part("", html=render("frameworks.html", frameworks=labels), end="")
        first.parent.insert(first.parent.index(first), switch)


def add_downloads(app: Sphinx, exception: Exception | None) -> None:
    """Put the chapters in other frameworks beside those whose pages hold them."""
    sources = Path(app.outdir) / "_sources" / "notebooks"
    book = Book(Path(app.srcdir))
    for chapter in book.chapters.values() if sources.is_dir() else ():
        if chapter.page != chapter.name:
            shutil.copy(book.root / chapter.where, sources)
