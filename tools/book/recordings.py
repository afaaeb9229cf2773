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
    """What a chapter printed on a runner."""

    chapter: Chapter
    runner: Runner
    folder: str  # in `outputs/`: the name of the runner, or of the card
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
        return self.provenance.card if self.runner.is_real_gpu else self.runner.label

    @property
    def machine(self) -> str:
        """What tabs know it by, the same in all frameworks."""
        return self.folder if self.runner.is_real_gpu else self.runner.machine

    @property
    def times_source(self) -> str:
        """Where its times come from: "modelled for a T4", or "measured on" its hardware."""
        return self.runner.clock_label or f"measured on {self.provenance.hardware}"

    @property
    def software(self) -> list[str]:
        """The versions of its framework and, on a card, of CUDA and the driver."""
        facts = self.provenance
        framework = self.runner.framework
        version = facts.versions[PACKAGES[framework]]
        software = [f"{FRAMEWORKS[framework]} {version}"]
        if "card" in facts:
            software += [f"CUDA {facts.cuda}", f"driver {facts.driver}"]
        return software

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key under which each cell was recorded, by cell id."""
        return {cell.id: cell.metadata.get("key") for cell in code_cells(self.notebook)}

    @cached_property
    def current_cells(self) -> dict[str, NotebookNode]:
        """The recorded cells whose keys are still those of the chapter, by cell id."""
        current = {}
        for cell in code_cells(self.notebook):
            key = self.chapter.keys.get(cell.id)
            if key is not None and key == self.keys[cell.id]:
                current[cell.id] = cell
        return current

    @property
    def outdated_ids(self) -> list[str]:
        """The ids of the chapter's cells that have changed since it was recorded."""
        ids = [cell.id for cell in self.chapter.code_cells]
        return [id for id in ids if id not in self.current_cells]

    def stale_because(self, pins: dict[str, str]) -> str | None:
        """Return why it is no longer what the runner would print, or None.

        Of a card, only code counts.
        """
        if self.keys != self.chapter.keys:
            return f"changed from the cell '{self._first_changed_cell()}' on"
        if self.runner.is_real_gpu:
            return None
        if self.provenance.get("kernel") != self.runner.digest(self.chapter):
            return f"the runner {self.runner.name} changed"
        for name, version in self.provenance.get("pins", {}).items():
            if pins.get(name) != version:
                now = pins.get(name, "no version")
                return f"{name} is pinned to {now}, it was {version}"
        return None

    def _first_changed_cell(self) -> str:
        """Return the id of a cell that has changed or, if none has, of one that is gone."""
        gone = [id for id in self.keys if id not in self.chapter.keys]
        changed = self.outdated_ids + gone
        return changed[0]

    def synced(self) -> "Recording":
        """Return the same with what no key covers as the chapter has it now.

        That is tags, setup and metadata.
        """
        if self.keys != self.chapter.keys:
            return self
        return make_recording(
            self.chapter, self.runner, self.folder, self.notebook, self.provenance
        )

    def write(self, root: Path) -> Path | None:
        """Write it into the book in `root`, unless that is what its file holds.

        Returns where the file was moved to, if a person had edited or damaged it.
        """
        path = root / self.where
        edited = None
        if path.exists():
            recorded = read_intact(path, root)
            if recorded == self.notebook:
                return None
            if recorded is None:
                edited = set_aside(path)
        write_notebook(self.notebook, path, root)
        return edited


def recording_path(folder: str, chapter: str) -> str:
    return f"outputs/{folder}/{chapter}.ipynb"


def record_command(runner: str, chapter: str) -> str:
    """Return the command that records a chapter on a runner."""
    command = f"make record RUNNER={runner} CHAPTER={chapter}"
    return f"{command} PYTHON=python3" if runner == GPU else command


def make_recording(
    chapter: Chapter,
    runner: Runner,
    folder: str,
    executed: NotebookNode,
    provenance: dict,
) -> Recording:
    """Return what is recorded of an executed chapter: its code cells, each under its key."""
    executed_cells = {cell.id: cell for cell in code_cells(executed)}
    notebook = deepcopy(chapter.notebook)
    notebook.cells = code_cells(notebook)
    for cell in notebook.cells:
        executed_cell = executed_cells[cell.id]
        cell.metadata["key"] = chapter.keys[cell.id]
        cell.outputs = deepcopy(executed_cell.outputs)
        cell.execution_count = executed_cell.execution_count

    notebook.metadata["kernelspec"] = {
        "name": runner.name,
        "display_name": runner.name,
        "language": "python",
    }
    notebook.metadata["provenance"] = deepcopy(provenance)
    notebook.metadata.provenance["digest"] = outputs_digest(notebook)
    return Recording(chapter, runner, folder, notebook)


def outputs_digest(notebook: NotebookNode) -> str:
    """Return the hash of what was recorded, provenance included: it shows an edit by hand."""
    recorded = []
    for cell in code_cells(notebook):
        key = cell.metadata.get("key")
        recorded.append([cell.id, key, cell.execution_count, cell.outputs])
    facts = dict(notebook.metadata.provenance)
    facts.pop("digest", None)
    return digest([json.dumps([recorded, facts], sort_keys=True)])


def read_as_recorded(path: Path, root: Path) -> NotebookNode | None:
    """Return a recording as these tools wrote it, or None if it was edited since.

    Raises BookError if it cannot be read, or is no notebook.
    """
    notebook = read_notebook(path, root)
    provenance = notebook.metadata.get("provenance")
    if not isinstance(provenance, dict):
        return None
    if provenance.get("digest") != outputs_digest(notebook):
        return None
    return notebook


def read_intact(path: Path, root: Path) -> NotebookNode | None:
    """Return the recording at `path`, or None if it is not there, damaged or edited."""
    try:
        return read_as_recorded(path, root)
    except BookError:
        return None


def read_recordings(
    root: Path, chapters: dict[str, Chapter], runners: dict[str, Runner]
) -> list[Recording]:
    """Return all recordings, in the order of the tabs and then of the chapters.

    Raises BookError if one is damaged, was edited since, or belongs to no chapter.
    """
    paths = sorted((root / "outputs").glob("*/*.ipynb"))
    for path in paths:
        if path.stem not in chapters:
            where = path.relative_to(root).as_posix()
            raise BookError(
                where,
                "no chapter has this name",
                f"if one was renamed, 'git mv {where} ...', else remove it",
            )

    recordings = []
    cards = [path.parent.name for path in paths if path.parent.name not in runners]
    for folder in dict.fromkeys([*runners, *cards]):
        for name, chapter in chapters.items():
            if (root / recording_path(folder, name)).is_file():
                recordings.append(_read_recording(folder, chapter, runners, root))
    return recordings


def _read_recording(
    folder: str, chapter: Chapter, runners: dict[str, Runner], root: Path
) -> Recording:
    where = recording_path(folder, chapter.name)
    notebook = read_as_recorded(root / where, root)
    if notebook is None:
        if folder in runners:
            command = record_command(folder, chapter.name)
            advice = f"record it again: '{command}'"
        else:  # that card may not be at hand
            command = record_command(GPU, chapter.name)
            elsewhere = f"where such a card is, record it again: '{command}'"
            advice = f"take it out of outputs/ or, {elsewhere}"
        raise BookError(where, "edited since it was recorded", advice)

    facts = notebook.metadata.provenance
    runner = runners.get(facts.runner)
    if not _is_home(folder, runner, runners) or facts.chapter != chapter.name:
        origin = f"of the chapter '{facts.chapter}' on the runner '{facts.runner}'"
        advice = "move it to their place in outputs/, restore that runner in kernels/"
        raise BookError(where, f"recorded {origin}", f"{advice}, or remove it")
    return Recording(chapter, runner, folder, notebook)


def _is_home(folder: str, runner: Runner | None, runners: dict[str, Runner]) -> bool:
    """Return whether the recordings of a runner belong into this folder of `outputs/`."""
    if runner is None:
        return False
    if runner.is_real_gpu:
        return folder not in runners
    return folder == runner.name
