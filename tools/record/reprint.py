"""Whether a chapter printed again what was recorded of it, so that nothing is rewritten."""

import json
import re
from pathlib import Path

from nbformat import NotebookNode

from tools.book.notebooks import code_cells
from tools.book.recordings import Recording, make_recording, read_as_recorded
from tools.files import read_text

RULE = re.compile(r"^regex: (.*)\nreplace: (.*)$", re.MULTILINE)  # as nbval reads them
SAME = ("pins", "versions", "python")  # another one of these is worth a new recording


def without_news(recording: Recording, root: Path) -> Recording:
    """Return the recording that is there already if the new one says nothing else.

    Two recordings say the same if the same versions printed the same, but for what nbval
    leaves out of the comparison. The one that is there then stays, date and hardware
    included, and only learns the state of the runner that printed it again. Real cards
    are recorded by a person, who means it.
    """
    notebook = read_as_recorded(root / recording.where, root)
    if notebook is None or not recording.runner.is_local:
        return recording
    old, new = notebook.metadata.provenance, recording.provenance
    if any(old.get(name) != new.get(name) for name in SAME):
        return recording
    renewed = make_recording(
        recording.chapter,
        recording.runner,
        recording.folder,
        notebook,
        old | {"kernel": new["kernel"]},
    )
    rules = RULE.findall(read_text(root / recording.runner.sanitize, root))
    if _printed(renewed.notebook, rules) != _printed(recording.notebook, rules):
        return recording
    return renewed


def _printed(notebook: NotebookNode, rules: list[tuple[str, str]]) -> list[str]:
    """Return what each cell printed, with what no two runs repeat put aside."""
    return [_sanitized(cell.outputs, rules) for cell in code_cells(notebook)]


def _sanitized(outputs: object, rules: list[tuple[str, str]]) -> str:
    if isinstance(outputs, str):
        for pattern, replacement in rules:
            outputs = re.sub(pattern, replacement, outputs)
        return outputs
    if isinstance(outputs, dict):
        values = {name: _sanitized(value, rules) for name, value in outputs.items()}
        return json.dumps(values, sort_keys=True)
    if isinstance(outputs, list):
        return json.dumps([_sanitized(value, rules) for value in outputs])
    return json.dumps(outputs)
