"""A chapter in several frameworks: its cells agree, but for those whose ids end in a framework.

Cells of the same id belong together, and of text cells the text is the same.
"""

from nbformat import NotebookNode

from tools.book.cells import Broken
from tools.book.chapters import SETUP, Chapter
from tools.book.links import CELL
from tools.book.notebooks import tags
from tools.rules.exercises import PART


def unlike(chapter: Chapter, first: Chapter) -> Broken:
    """Where a chapter does not agree with the same in its `first` framework. Exercises, which
    masters hold, may differ in their text."""
    here, there = (
        {cell.id: cell for cell in common_cells(one)} for one in (chapter, first)
    )
    mend = f"or let its id end in '-{chapter.framework}'"
    for id in there.keys() - here.keys():
        yield (
            None,
            f"lacks '{id}' of {first.where}; add it, or name it '{id}-{first.framework}'",
        )
    for id in here.keys() - there.keys():
        yield here[id], f"is not in {first.where}; add it there, {mend}"
    for id in here.keys() & there.keys():
        text = here[id].cell_type == "markdown" and not PART.fullmatch(id)
        if here[id].cell_type != there[id].cell_type:
            yield (
                here[id],
                f"is of another kind than in {first.where}; name one of them otherwise",
            )
        elif text and here[id].source != there[id].source:
            yield (
                here[id],
                f"another text than in {first.where}; make them equal, {mend}",
            )
    orders = [
        [id for id in one if id in other]
        for one, other in ((here, there), (there, here))
    ]
    for id, other in zip(*orders, strict=True):
        if id != other:
            yield here[id], f"'{other}' stands here in {first.where}; move one of them"
            return


def common_cells(chapter: Chapter) -> list[NotebookNode]:
    """The cells whose ids name no framework; links and set-up get a framework ready."""
    end = f"-{chapter.framework}"
    cells = chapter.notebook.cells
    return [
        c for c in cells if not (c.id.endswith(end) or c.id == CELL or SETUP in tags(c))
    ]


def open_sections(chapter: Chapter) -> Broken:
    """A section for one framework ends where the next common text does not belong to it."""
    common = {cell.id for cell in common_cells(chapter)}
    opened = None
    for cell in chapter.notebook.cells:
        if cell.cell_type == "markdown":
            heading = cell.source.startswith("#")
            if opened and cell.id in common and not heading:
                yield (
                    opened,
                    f"its section holds '{cell.id}' of all frameworks; move it below",
                )
            if heading or cell.id in common:
                opened = cell if heading and cell.id not in common else None
