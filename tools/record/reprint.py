"""Keep a recording whose chapter printed the same again, so that nothing is rewritten."""

import re
from copy import deepcopy
from pathlib import Path

from nbformat import NotebookNode

from tools.book.notebooks import code_cells
from tools.book.recordings import Recording, make_recording, read_intact
from tools.files import read_text

RULE = re.compile(r"^regex: (.*)\nreplace: (.*)$", re.MULTILINE)  # as nbval reads them
SAME = ("pins", "versions")  # another one of these is worth a new recording


def keep_old_if_same(recording: Recording, root: Path) -> Recording:
    """Return the old recording if a new one says the same, else the new one.

    Two recordings say the same if the same versions printed the same, but for what nbval
    leaves out of the comparison. The old one then stays, date and hardware included, and
    only learns the state of the runner that printed it again. Real cards are recorded by
    a person, who means it.
    """
    notebook = read_intact(root / recording.where, root)
    if notebook is None or recording.runner.is_real_gpu:
        return recording
    old = notebook.metadata.provenance
    new = recording.provenance
    for name in SAME:
        if old.get(name) != new.get(name):
            return recording
    if _minor(old.get("python")) != _minor(new.get("python")):
        return recording

    old_cells = {cell.id for cell in code_cells(notebook)}
    if any(cell.id not in old_cells for cell in recording.chapter.code_cells):
        return recording

    runner = recording.runner
    facts = old | {"kernel": new["kernel"]}
    renewed = make_recording(
        recording.chapter, runner, recording.folder, notebook, facts
    )
    rules = RULE.findall(read_text(root / runner.sanitize, root))
    if _printed(renewed.notebook, rules) != _printed(recording.notebook, rules):
        return recording
    return renewed


def _minor(python: str | None) -> list[str]:
    """Return the numbers of a version of Python, but for those of its bug fixes."""
    return (python or "").split(".")[:2]


def _printed(notebook: NotebookNode, rules: list[tuple[str, str]]) -> list[object]:
    """Return what each cell printed, with what no two runs repeat put aside."""
    return [_sanitized(_joined(cell.outputs), rules) for cell in code_cells(notebook)]


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs with neighbours on the same stream in one, however they arrived."""
    joined: list[NotebookNode] = []
    for output in deepcopy(outputs):
        last = joined[-1] if joined else None
        is_stream = output.output_type == "stream"
        if is_stream and last is not None and last.get("name") == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _sanitized(value: object, rules: list[tuple[str, str]]) -> object:
    """Return outputs, or a part of them, with the rules applied to every text in them."""
    if isinstance(value, dict):
        return {name: _sanitized(part, rules) for name, part in value.items()}
    if isinstance(value, list):
        return [_sanitized(part, rules) for part in value]
    if isinstance(value, str):
        for pattern, replacement in rules:
            value = re.sub(pattern, replacement, value)
    return value
