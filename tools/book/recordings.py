"""Recordings: the chapters as a runner executed them, with provenance and keys.

`outputs/<runner>/<chapter>.ipynb` holds the code cells of the chapter with what they
printed; for real GPUs the folder bears the name of the card. Prose is not copied there: it
has one home, the chapter.
"""

import json
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from tools.book.chapters import FRAMEWORKS, PACKAGES, Chapter
from tools.book.notebooks import code_cells, read_notebook, write_notebook
from tools.book.runners import GPU, Runner
from tools.errors import BookError
from tools.files import digest, set_aside


@dataclass(frozen=True)
class Recording:
    chapter: Chapter
    runner: Runner
    folder: str
    notebook: NotebookNode = field(repr=False)

    @property
    def where(self) -> str:
        return recording_path(self.folder, self.chapter.name)

    @property
    def provenance(self) -> NotebookNode:
        return self.notebook.metadata.provenance

    @property
    def label(self) -> str:
        """What tabs and tables call its runner: the name, or that of the card."""
        return self.runner.label if self.runner.is_local else self.provenance.card

    @property
    def machine(self) -> str:
        """What tabs know it by, the same in all frameworks."""
        return self.runner.machine if self.runner.is_local else self.folder

    @property
    def times(self) -> str:
        """What its times are: "modelled for a T4", or "measured on" its hardware."""
        return self.runner.times or f"measured on {self.provenance.hardware}"

    @property
    def software(self) -> list[str]:
        """The versions of its framework and, on a card, of CUDA and the driver."""
        made, name = self.provenance, self.runner.framework
        card = [f"CUDA {made.cuda}", f"driver {made.driver}"] if "card" in made else []
        return [f"{FRAMEWORKS[name]} {made.versions[PACKAGES[name]]}", *card]

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key under which each cell was recorded, by cell id."""
        return {cell.id: cell.metadata.get("key") for cell in code_cells(self.notebook)}

    @cached_property
    def cells(self) -> dict[str, NotebookNode]:
        """The recorded cells whose keys are still those of the chapter, by cell id."""
        now, recorded = self.chapter.keys.items(), code_cells(self.notebook)
        return {
            cell.id: cell for cell in recorded if (cell.id, self.keys[cell.id]) in now
        }

    @property
    def waiting(self) -> list[str]:
        """The ids of the chapter's cells that have changed since."""
        return [
            cell.id for cell in self.chapter.code_cells if cell.id not in self.cells
        ]

    def stale_because(self, pins: dict[str, str]) -> str | None:
        """Why it is no longer what the runner would print, or None. Of a card, only code counts."""
        if self.keys != self.chapter.keys:
            changed = self.waiting or [
                id for id in self.keys if id not in self.chapter.keys
            ]
            return (
                f"changed from the cell '{changed[0]}' on" if changed else "cells moved"
            )
        if not self.runner.is_local:
            return None
        if self.provenance.get("kernel") != self.runner.digest(self.chapter):
            return f"the runner {self.runner.name} changed"
        for name, version in self.provenance.get("pins", {}).items():
            if pins.get(name) != version:
                return f"{name} is pinned to {pins.get(name, 'no version')}, it was {version}"
        return None

    def synced(self) -> "Recording":
        """The same with what no key covers as the chapter has it: tags, set-up, metadata."""
        if self.keys != self.chapter.keys:
            return self
        place = self.chapter, self.runner, self.folder
        return make_recording(*place, self.notebook, self.provenance)

    def write(self, root: Path) -> Path | None:
        """Write it into the book in `root`, unless that is what its file holds.

        Returns where the file was moved to, if a person had edited it.
        """
        path = root / self.where
        edited = None
        if path.exists():
            recorded = read_as_recorded(path, root)
            if recorded == self.notebook:
                return None
            if recorded is None:
                edited = set_aside(path)
        write_notebook(self.notebook, path, root)
        return edited


def recording_path(folder: str, chapter: str) -> str:
    return f"outputs/{folder}/{chapter}.ipynb"


def record_command(runner: str, chapter: str) -> str:
    command = f"make record RUNNER={runner} CHAPTER={chapter}"
    return f"{command} PYTHON=python3" if runner == GPU else command


def make_recording(
    chapter: Chapter,
    runner: Runner,
    folder: str,
    executed: NotebookNode,
    provenance: dict,
) -> Recording:
    """What is recorded of an executed chapter: its code cells, each under its key."""
    printed = {cell.id: cell for cell in code_cells(executed)}
    outputs = deepcopy(chapter.notebook)
    outputs.cells = code_cells(outputs)
    for cell in outputs.cells:
        cell.metadata["key"] = chapter.keys[cell.id]
        cell.outputs = deepcopy(printed[cell.id].outputs)
        cell.execution_count = printed[cell.id].execution_count
    name = runner.name
    outputs.metadata["kernelspec"] = {
        "name": name,
        "display_name": name,
        "language": "python",
    }
    outputs.metadata["provenance"] = deepcopy(provenance)
    outputs.metadata.provenance["digest"] = outputs_digest(outputs)
    return Recording(chapter, runner, folder, outputs)


def outputs_digest(outputs: NotebookNode) -> str:
    """The hash of what was recorded, provenance included: it shows an edit by hand."""
    cells = code_cells(outputs)
    made = [[c.id, c.metadata.get("key"), c.execution_count, c.outputs] for c in cells]
    facts = {
        name: fact
        for name, fact in outputs.metadata.provenance.items()
        if name != "digest"
    }
    return digest([json.dumps([made, facts], sort_keys=True)])


def read_as_recorded(path: Path, root: Path) -> NotebookNode | None:
    """A recording as these tools wrote it; None if it was edited since, or is not theirs at all."""
    try:
        outputs = read_notebook(path, root)
        intact = outputs.metadata.provenance.digest == outputs_digest(outputs)
    except (BookError, AttributeError):
        return None
    return outputs if intact else None


def read_recordings(
    root: Path, chapters: dict[str, Chapter], runners: dict[str, Runner]
) -> dict[str, dict[str, Recording]]:
    """All recordings, to the letter as written: by runner or card, as tabs are, and by chapter."""
    paths = sorted((root / "outputs").glob("*/*.ipynb"))
    for where in (
        path.relative_to(root).as_posix() for path in paths if path.stem not in chapters
    ):
        advice = f"if one was renamed, 'git mv {where} ...', else remove it"
        raise BookError(f"{where}: no chapter has this name; {advice}")
    found: dict[str, dict[str, Recording]] = {}
    for folder in dict.fromkeys([*runners, *(path.parent.name for path in paths)]):
        for name, chapter in chapters.items():
            if (root / recording_path(folder, name)).is_file():
                made = _read_recording(folder, chapter, runners, root)
                found.setdefault(folder, {})[name] = made
    return found


def _read_recording(
    folder: str, chapter: Chapter, runners: dict, root: Path
) -> Recording:
    where = recording_path(folder, chapter.name)
    command = record_command(folder if folder in runners else GPU, chapter.name)
    again = f"record it again: '{command}'"
    if folder not in runners:  # that card may not be at hand
        again = f"take it out of outputs/ or, where such a card is, {again}"
    outputs = read_as_recorded(root / where, root)
    if outputs is None:
        raise BookError(f"{where}: edited since it was recorded; {again}")
    facts = outputs.metadata.provenance
    runner = runners.get(facts.runner)
    is_home = runner and (
        folder == runner.name if runner.is_local else folder not in runners
    )
    if not is_home or facts.chapter != chapter.name:
        made = (
            f"recorded of the chapter '{facts.chapter}' on the runner '{facts.runner}'"
        )
        mend = "move it to their place in outputs/, restore that runner in kernels/, or remove it"
        raise BookError(f"{where}: {made}; {mend}")
    return Recording(chapter, runner, folder, outputs)
