"""Outputs: the chapters as a runner executed them, with provenance and keys.

`outputs/<runner>/<chapter>.ipynb` holds the code cells of the chapter with what they
printed. Prose is not copied there: it has one home, the chapter.
"""

from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from book.tools.chapters import (
    ROOT,
    cell_keys,
    chapter_names,
    code_cells,
    read_chapter,
    read_notebook,
    write_notebook,
)
from book.tools.environment import pins_digest
from book.tools.errors import BookError


def outputs_path(name: str, runner: str, root: Path = ROOT) -> Path:
    """Where the outputs of a chapter on a runner are kept."""
    return root / "outputs" / runner / f"{name}.ipynb"


def read_outputs(name: str, runner: str, root: Path = ROOT) -> NotebookNode | None:
    """The outputs of a chapter on a runner, or None if none were recorded.

    Raises BookError if the file is there but is not what this module writes.
    """
    path = outputs_path(name, runner, root)
    if not path.is_file():
        return None
    outputs = read_notebook(path, root)
    if "provenance" not in outputs.metadata:
        where = path.relative_to(root).as_posix()
        raise BookError(f"{where}: no provenance; record it again: 'make record RUNNER={runner}'")
    return outputs


def stale_chapters(runner: str, root: Path = ROOT) -> list[str]:
    """The chapters whose outputs on `runner` are missing or no longer theirs."""
    return [
        name
        for name in chapter_names(root)
        if is_stale(read_chapter(name, root), read_outputs(name, runner, root), root)
    ]


def is_stale(chapter: NotebookNode, outputs: NotebookNode | None, root: Path = ROOT) -> bool:
    """True if a key or the pins changed since `outputs` were recorded, or there are none."""
    if outputs is None or outputs.metadata.provenance.get("pins") != pins_digest(root):
        return True
    return recorded_keys(outputs) != cell_keys(chapter)


def recorded_keys(outputs: NotebookNode) -> dict[str, str]:
    """The key under which each cell was recorded, by cell id."""
    return {cell.id: cell.metadata.get("key") for cell in code_cells(outputs)}


def as_outputs(chapter: NotebookNode, executed: NotebookNode, provenance: dict) -> NotebookNode:
    """What is kept of an executed chapter: its code cells, each under its key."""
    keys = cell_keys(chapter)
    printed = {cell.id: cell for cell in code_cells(executed)}
    outputs = deepcopy(chapter)
    outputs.cells = code_cells(outputs)
    for cell in outputs.cells:
        cell.metadata["key"] = keys[cell.id]
        cell.outputs = deepcopy(printed[cell.id].outputs)
        cell.execution_count = printed[cell.id].execution_count
    runner = provenance["runner"]
    outputs.metadata["kernelspec"] = {"name": runner, "display_name": runner, "language": "python"}
    outputs.metadata["provenance"] = provenance
    return outputs


def sync_outputs(runner: str, root: Path = ROOT) -> list[str]:
    """Carry over to the outputs what no key covers: tags, the set-up cell, metadata.

    Executes nothing and changes no output. Returns the chapters it wrote.
    """
    written = []
    for name in chapter_names(root):
        chapter, outputs = read_chapter(name, root), read_outputs(name, runner, root)
        if outputs is None or recorded_keys(outputs) != cell_keys(chapter):
            continue
        synced = as_outputs(chapter, outputs, outputs.metadata.provenance)
        if synced != outputs:
            write_notebook(synced, outputs_path(name, runner, root))
            written.append(name)
    return written


def merge(chapter: NotebookNode, outputs: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The chapter with the outputs whose keys still match, and the ids of cells that wait."""
    page, waiting = deepcopy(chapter), []
    keys, printed = cell_keys(chapter), {cell.id: cell for cell in code_cells(outputs)}
    for cell in code_cells(page):
        recorded = printed.get(cell.id)
        if recorded is None or recorded.metadata.get("key") != keys[cell.id]:
            waiting.append(cell.id)
            continue
        cell.outputs = deepcopy(recorded.outputs)
        cell.execution_count = recorded.execution_count
    return page, waiting
