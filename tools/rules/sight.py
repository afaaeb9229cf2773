"""The notebook is the page: what is folded, how much is not, and links that travel with it."""

import ast
import re

from nbformat import NotebookNode

from tools.book.addresses import is_text, relative_targets
from tools.book.book import Book
from tools.book.cells import has_assert, syntax_tree
from tools.book.chapters import FOLDED, Chapter, Fault, Faults
from tools.book.grammar import (
    CHECKS,
    CHECKS_TITLE,
    EXERCISE_PART,
    HELPERS_TITLE,
    HIDDEN_CODE,
    MACHINERY,
    TITLE,
)
from tools.book.notebooks import tags
from tools.files import read_beside

LEAST = 85  # percent of a chapter's lines of code that are in sight
# The chapters that show less, with what they show at least.
EXCEPTIONS: dict[str, int] = read_beside(__file__, "sight.yml") or {}
FOLDING = {CHECKS, MACHINERY, HIDDEN_CODE}


def folded_everywhere(chapter: Chapter) -> Faults:
    """What the page folds is folded in Jupyter and in Colab, too, under a title."""
    for cell in _own_code(chapter):
        folding = FOLDING & set(tags(cell))
        if not folding:
            continue
        first_line = cell.source.partition("\n")[0]
        if CHECKS in folding:
            title = CHECKS_TITLE
            if not has_assert(syntax_tree(chapter, cell)):
                yield Fault(cell, "checks nothing", f"drop the tag '{CHECKS}'")
            if len(folding) > 1:
                others = ", ".join(sorted(folding - {CHECKS}))
                yield Fault(cell, f"has the tag '{CHECKS}' and {others}", "keep one")
            has_title = first_line == title
        else:
            title = HELPERS_TITLE
            # Nothing may stand above a magic of the whole cell.
            has_title = first_line.startswith((TITLE, "%%"))
        if not has_title:
            yield Fault(cell, "is folded without a title", f"begin with '{title}'")
        for name, value in FOLDED.items():
            if cell.metadata.get(name) != value:
                advice = f"add to its metadata: {name!r}: {value!r}"
                yield Fault(cell, "is folded on the page alone", advice)


def code_in_sight(chapter: Chapter, book: Book) -> Faults:
    """Of a chapter's lines of code, checks left out, no more than a few are folded.

    A folded cell that only repeats what an earlier chapter showed is left out, too. The
    clinics fold such a cell: the training script, a file of `book/clinic` that the earlier
    clinics have shown, first as a whole and then repair by repair.
    """
    share = share_in_sight(chapter, shown_before(chapter, book))
    least = EXCEPTIONS.get(chapter.name, LEAST)
    if share < least:
        words = f"{share} % of its lines of code are in sight, {least} at least"
        yield Fault(None, words, "show more, or import it from cudasim.lab")
    elif share >= LEAST and chapter.name in EXCEPTIONS:
        words = f"{share} % of its lines of code are in sight"
        yield Fault(None, words, "take it out of tools/rules/sight.yml")


def share_in_sight(chapter: Chapter, known: set[str]) -> int:
    """Return how many percent of a chapter's lines of code are not folded.

    Left out are empty lines and titles, the setup, checks, the cells of exercises, and
    folded cells all of whose statements are `known`.
    """
    shown = 0
    total = 0
    for cell in _own_code(chapter):
        folding = FOLDING & set(tags(cell))
        if CHECKS in folding:
            continue
        if folding and statements(chapter, cell) <= known:
            continue
        for line in cell.source.splitlines():
            if line.strip() and not line.startswith(TITLE):
                total += 1
                shown += not folding
    return 100 * shown // total if total else 100


def shown_before(chapter: Chapter, book: Book) -> set[str]:
    """Return the statements that are in sight in the chapters before this one."""
    shown: set[str] = set()
    for earlier in book.chapters.values():
        if earlier.name == chapter.name:
            break
        for cell in _own_code(earlier):
            if not FOLDING & set(tags(cell)):
                shown |= statements(earlier, cell)
    return shown


def statements(chapter: Chapter, cell: NotebookNode) -> set[str]:
    """Return the statements of a cell, each in one spelling and without comments."""
    return {ast.unparse(node) for node in syntax_tree(chapter, cell).body}


def _own_code(chapter: Chapter) -> list[NotebookNode]:
    """Return the code cells of a chapter, without its setup and its exercises."""
    cells = chapter.keyed_cells
    return [cell for cell in cells if not EXERCISE_PART.fullmatch(cell.id)]


def links_travel(chapter: Chapter) -> Faults:
    """No link leads to a file that is beside the chapter in this repository only."""
    for cell in chapter.notebook.cells:
        if not is_text(cell):
            continue
        targets = relative_targets(cell.source)
        if targets:
            words = f"its link to '{targets[0]}' is dead after a download"
            yield Fault(cell, words, "'python -m tools links' writes the address")


def pages_that_are_there(chapter: Chapter, book: Book) -> Faults:
    """Every address of the published site names a page of the book.

    The site's build checks the headings, as it makes links to files of the addresses.
    """
    if not (book.root / "_config.yml").is_file():
        return  # a book that is published nowhere
    address = re.compile(rf"{re.escape(book.repository.site)}([\w/.-]+)\.html")
    for cell in chapter.notebook.cells:
        if not is_text(cell):
            continue
        for page in address.findall(cell.source):
            if page not in book.documents:
                words = f"links to '{page}', which is no page of the site"
                yield Fault(cell, words, "name one of _toc.yml")


SIGHT_RULES = (folded_everywhere, links_travel)
