"""The page of a chapter in several frameworks: common text once, the rest in blocks.

`book/static/frameworks.js` shows the blocks of one framework, which a switch chooses.
Without it all are shown, one below the other, each under the name of its framework.
"""

import shutil
from pathlib import Path

from docutils import nodes
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx

from tools.book.book import Book
from tools.book.chapters import FRAMEWORKS, Chapter
from tools.book.frameworks import disagreements, open_sections
from tools.book.grammar import PREDICTED
from tools.errors import BookError
from tools.site.page import chapter_page, page_notebook
from tools.site.parts import html_part, load_where, render

# A text cell makes no node of its own, so comments say in the text of a page what is for
# one framework: "block jax" to "end jax", or, in a section, "section jax".
BLOCK, SECTION, END = "block", "section", "end"


def setup(app: Sphinx) -> None:
    # Before links, tabs and folds are drawn.
    app.connect("doctree-read", add_blocks, priority=300)
    app.connect("build-finished", add_downloads)
    load_where(app, '<fieldset class="frameworks"', "frameworks.css", "frameworks.js")


# The notebook of a page, from those of the frameworks.


def whole_page(name: str, book: Book) -> NotebookNode:
    """Return the page of a chapter in all its frameworks, for MyST-NB."""
    first, *others = book.chapters_on(name)
    for other in others:
        require_likeness(other, first)

    notebooks = {}
    for chapter in (first, *others):
        page = chapter_page(chapter, book)
        notebooks[chapter.framework] = page_notebook(page, book.root)
    if not others:
        return notebooks[first.framework]
    return join(notebooks)


def require_likeness(chapter: Chapter, first: Chapter) -> None:
    """Raise BookError if a chapter in two frameworks cannot be on one page."""
    faults = [
        *disagreements(chapter, first),
        *open_sections(chapter),
        *open_sections(first),
    ]
    if faults:
        fault = faults[0]
        place = f": '{fault.cell.id}'" if fault.cell else ""
        raise BookError(f"{chapter.where}{place}", str(fault))


def join(notebooks: dict[str, NotebookNode]) -> NotebookNode:
    """Return one notebook for several frameworks, with marks around what is for one."""
    texts = [texts_of(notebook) for notebook in notebooks.values()]
    common = set.intersection(*texts)
    runs = {}
    for framework, notebook in notebooks.items():
        runs[framework] = cut(notebook, common)

    first = next(iter(notebooks))
    cells = []
    for index, run in enumerate(runs[first]):
        cells.append(run[0])  # the common text, with which each run begins
        blocks = []
        sections = []
        for framework in notebooks:
            framework_cells = runs[framework][index][1:]
            block, section = mark_cells(framework_cells, framework)
            blocks += block
            sections += section
        cells += blocks + sections

    joined = notebooks[first]
    joined.cells = cells
    return joined


def texts_of(notebook: NotebookNode) -> set[tuple[str, str]]:
    texts = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            texts.add((cell.id, cell.source))
    return texts


def cut(
    notebook: NotebookNode, common: set[tuple[str, str]]
) -> list[list[NotebookNode]]:
    """Cut the cells of a notebook before each common text; the first is its title."""
    runs: list[list[NotebookNode]] = []
    for cell in notebook.cells:
        if (cell.id, cell.source) in common:
            runs.append([])
        runs[-1].append(cell)
    return runs


def mark_cells(
    cells: list[NotebookNode], framework: str
) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Mark a framework's own cells: those before the first heading, and its sections.

    A heading opens a section, which lasts to the next common heading.
    """
    for cell in cells:
        cell.id = f"{cell.id[:50]}__{framework}"
        if PREDICTED in cell.metadata:
            cell.metadata[PREDICTED] += f"-{framework}"

    first = 0  # the index of the first heading
    while first < len(cells) and not opens_section(cells[first]):
        first += 1
    block = cells[:first]
    section = cells[first:]
    if block:
        block = [mark(BLOCK, framework), *block, mark(END, framework)]
    if section:
        section.insert(1, mark(SECTION, framework))
    return block, section


def opens_section(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and cell.source.startswith("#")


def mark(kind: str, framework: str) -> NotebookNode:
    return new_markdown_cell(f"% {kind} {framework}")


# The blocks of that page.


def add_blocks(app: Sphinx, doctree: nodes.document) -> None:
    """Make a block of what stands between two marks, and put the switch above the first."""
    labels: dict[str, str] = {}
    first_block = None
    for comment in [*doctree.findall(nodes.comment)]:
        kind, _, framework = comment.astext().partition(" ")
        if framework not in FRAMEWORKS:
            continue
        labels[framework] = FRAMEWORKS[framework]
        if kind == BLOCK:
            block = make_block(comment, framework, doctree)
            if first_block is None:
                first_block = block
        elif kind == SECTION:
            comment.parent["classes"] += classes_of(framework)
            comment.replace_self(name_of(framework))

    if first_block is not None:
        switch = html_part(render("frameworks.html", frameworks=labels))
        section = first_block.parent
        section.insert(section.index(first_block), switch)


def make_block(
    comment: nodes.comment, framework: str, doctree: nodes.document
) -> nodes.container:
    """Put the nodes from a mark to its end into a block."""
    section = comment.parent
    start = section.index(comment)
    end = start
    while not is_end(section[end], framework):
        end += 1
    block = nodes.container(
        "",
        name_of(framework),
        *section[start + 1 : end],
        classes=classes_of(framework),
    )
    section[start : end + 1] = [block]

    # The table of outcomes leads to the first block of a section.
    anchor = f"{section['ids'][0]}-{framework}"
    if anchor not in doctree.ids:
        doctree.ids[anchor] = block
        block["ids"] = [anchor]
    return block


def is_end(node: nodes.Node, framework: str) -> bool:
    return isinstance(node, nodes.comment) and node.astext() == f"{END} {framework}"


def classes_of(framework: str) -> list[str]:
    return ["framework", framework]


def name_of(framework: str) -> nodes.paragraph:
    return nodes.paragraph("", FRAMEWORKS[framework], classes=["framework-name"])


def add_downloads(app: Sphinx, exception: Exception | None) -> None:
    """Put the chapters in other frameworks beside those whose pages hold them."""
    sources = Path(app.outdir) / "_sources" / "notebooks"
    if not sources.is_dir():
        return
    book = Book(Path(app.srcdir))
    for chapter in book.chapters.values():
        if chapter.page_name != chapter.name:
            shutil.copy(book.root / chapter.where, sources)
