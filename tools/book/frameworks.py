"""A chapter in several frameworks: its cells agree, but for those whose ids end in a framework.

Cells of the same id belong together, and of text cells the text is the same.
"""

from nbformat import NotebookNode

from tools.book.chapters import Chapter, Fault, Faults
from tools.book.grammar import EXERCISE_PART, LINKS_CELL, SETUP
from tools.book.notebooks import tags


def disagreements(chapter: Chapter, first: Chapter) -> Faults:
    """Yield where a chapter does not agree with the same in its `first` framework.

    Exercises, which masters hold, may differ in their text.
    """
    cells = {cell.id: cell for cell in common_cells(chapter)}
    first_cells = {cell.id: cell for cell in common_cells(first)}
    rename = f"or let its id end in '-{chapter.framework}'"

    for id, cell in cells.items():
        if id not in first_cells:
            yield Fault(cell, f"is not in {first.where}", f"add it there, {rename}")

    for id, first_cell in first_cells.items():
        cell = cells.get(id)
        if cell is None:
            advice = f"add it, or name it '{id}-{first.framework}'"
            yield Fault(None, f"lacks '{id}' of {first.where}", advice)
        elif cell.cell_type != first_cell.cell_type:
            words = f"is of another kind than in {first.where}"
            yield Fault(cell, words, "rename one of them")
        elif cell.source != first_cell.source and _is_common_text(cell):
            words = f"another text than in {first.where}"
            yield Fault(cell, words, f"make them equal, {rename}")

    order = [id for id in cells if id in first_cells]
    first_order = [id for id in first_cells if id in cells]
    for id, first_id in zip(order, first_order, strict=True):
        if id != first_id:
            words = f"'{first_id}' stands here in {first.where}"
            yield Fault(cells[id], words, "move one of them")
            return


def _is_common_text(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and not EXERCISE_PART.fullmatch(cell.id)


def common_cells(chapter: Chapter) -> list[NotebookNode]:
    """Return the cells of all frameworks: no id that names one, no links, no setup."""
    return [cell for cell in chapter.notebook.cells if _is_common(cell, chapter)]


def _is_common(cell: NotebookNode, chapter: Chapter) -> bool:
    if cell.id.endswith(f"-{chapter.framework}"):
        return False
    return cell.id != LINKS_CELL and SETUP not in tags(cell)


def open_sections(chapter: Chapter) -> Faults:
    """Yield sections for one framework that hold a text of all of them."""
    common_ids = {cell.id for cell in common_cells(chapter)}
    section = None  # the heading of the framework's section that is open
    for cell in chapter.notebook.cells:
        if cell.cell_type != "markdown":
            continue
        is_heading = cell.source.startswith("#")
        is_common = cell.id in common_ids
        if section and is_common and not is_heading:
            yield Fault(
                section,
                f"its section holds '{cell.id}' of all frameworks",
                "move it below",
            )
        if is_common:
            section = None
        elif is_heading:
            section = cell
