"""Outputs: the chapters as a runner executed them, with provenance and keys.

`outputs/<runner>/<chapter>.ipynb` holds the code cells of the chapter with what they
printed; for real GPUs the folder bears the name of the card. Prose is not copied there: it
has one home, the chapter.
"""

import hashlib
import json
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from tools.environment import pins_digest
from tools.errors import BookError
from tools.run.runners import GPU, runner_chapters, runner_label, runner_names, simulator_digest
from tools.source.chapters import (
    ROOT,
    cell_keys,
    chapter_names,
    code_cells,
    read_chapter,
    read_notebook,
    write_notebook,
)


def recorded_runners(root: Path = ROOT) -> list[str]:
    """The runners and cards that have outputs, in the order in which pages show them.

    Raises BookError if a file there is of no chapter.
    """
    chapters = chapter_names(root)
    folders = [path for path in (root / "outputs").glob("*") if path.is_dir()]
    for path in sorted(file for folder in folders for file in folder.glob("*.ipynb")):
        if path.stem not in chapters:
            where = path.relative_to(root).as_posix()
            raise BookError(
                f"{where}: no chapter has this name; if one was renamed, rename this too "
                f"('git mv {where} ...'), else remove it"
            )
    recorded = [folder.name for folder in folders if any(folder.glob("*.ipynb"))]
    runners = [name for name in runner_names(root) if name in recorded]
    return runners + sorted(set(recorded) - set(runners))


def outputs_path(name: str, runner: str, root: Path = ROOT) -> Path:
    """Where the outputs of a chapter on a runner, or a card, are kept."""
    return root / "outputs" / runner / f"{name}.ipynb"


def read_outputs(name: str, runner: str, root: Path = ROOT) -> NotebookNode | None:
    """The outputs of a chapter on a runner, or None if none were recorded.

    Raises BookError if the file is there but is not, to the letter, what this module wrote.
    """
    path = outputs_path(name, runner, root)
    if not path.is_file():
        return None
    outputs = read_notebook(path, root)
    facts = outputs.metadata.get("provenance")
    where = path.relative_to(root).as_posix()
    again = f"record it again: '{record_command(runner, name, root)}'"
    if not isinstance(facts, dict):
        raise BookError(f"{where}: no provenance; {again}")
    if facts.get("chapter") != name:
        raise BookError(f"{where}: outputs of the chapter '{facts.get('chapter')}'; {again}")
    for cell in code_cells(outputs):
        if cell.execution_count is None:
            raise BookError(f"{where}: the cell '{cell.id}' was not executed; {again}")
    if facts.get("digest") != outputs_digest(outputs):
        raise BookError(
            f"{where}: edited since it was recorded; 'git checkout {where}', or {again}"
        )
    return outputs


def record_command(runner: str, name: str, root: Path = ROOT) -> str:
    """The command that records the chapter `name` on `runner`, or on a card."""
    if runner in runner_names(root):
        return f"make record RUNNER={runner} CHAPTERS={name}"
    return f"make record RUNNER={GPU} CHAPTERS={name} PYTHON=python3"


def outputs_digest(outputs: NotebookNode) -> str:
    """The hash of what was recorded: it tells outputs that were edited by hand."""
    cells = [
        [cell.id, cell.metadata.get("key"), cell.execution_count, cell.outputs]
        for cell in code_cells(outputs)
    ]
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:16]


def stale_chapters(runner: str, root: Path = ROOT) -> list[str]:
    """The chapters of `runner` whose outputs are missing or no longer theirs."""
    return [
        name
        for name in runner_chapters(runner, root)
        if is_stale(read_chapter(name, root), read_outputs(name, runner, root), root)
    ]


def is_stale(chapter: NotebookNode, outputs: NotebookNode | None, root: Path = ROOT) -> bool:
    """True if `outputs` were recorded from other code, with other pins, or not at all.

    Simulated outputs are stale when the simulator changed, too. Those of a card are stale
    only when a key changed: their versions are shown, not compared.
    """
    if outputs is None or recorded_keys(outputs) != cell_keys(chapter):
        return True
    facts = outputs.metadata.provenance
    if facts.runner == GPU:
        return False
    made_with = (facts.get("pins"), facts.get("simulator"))
    return made_with != (pins_digest(root), simulator_digest(facts.runner, root))


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
    outputs.metadata["provenance"] = provenance | {"digest": outputs_digest(outputs)}
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


def printed_cells(chapter: NotebookNode, outputs: NotebookNode) -> dict[str, NotebookNode]:
    """The recorded cells whose keys are still those of `chapter`, by cell id."""
    keys, recorded = cell_keys(chapter), recorded_keys(outputs)
    return {cell.id: cell for cell in code_cells(outputs) if keys.get(cell.id) == recorded[cell.id]}


def waiting_cells(chapter: NotebookNode, outputs: NotebookNode) -> list[str]:
    """The ids of the cells that have changed since `outputs` were recorded."""
    printed = printed_cells(chapter, outputs)
    return [cell.id for cell in code_cells(chapter) if cell.id not in printed]


def label(runner: str, outputs: NotebookNode, root: Path = ROOT) -> str:
    """What tabs and tables call a runner: its name, or that of the card."""
    if runner in runner_names(root):
        return runner_label(runner, root)
    return outputs.metadata.provenance.card
