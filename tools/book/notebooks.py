"""Notebooks: read as they are, with one line about what is wrong; written in one step."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from tools.errors import BookError
from tools.files import read_text, write_files, write_text


def read_notebook(path: Path, root: Path) -> NotebookNode:
    """Return the notebook at `path`, valid and with ids (nbformat 4.5), or raise BookError."""
    where = path.relative_to(root).as_posix()
    text = read_text(path, root)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BookError(
            where, f"not valid JSON ({error})", "correct it there"
        ) from None

    if not _is_format_4_5(content):
        raise BookError(
            where, "not a notebook of format 4.5", "save it with a current Jupyter"
        )
    # First, as nbformat would rename the second of two cells with one id.
    ids = [cell.get("id") for cell in content.get("cells", [])]
    for id in ids:
        if ids.count(id) > 1:
            raise BookError(
                where, f"two cells have the id '{id}'", "rename one of them"
            )
    try:
        nbformat.validate(content)
    except nbformat.ValidationError as error:
        reason = str(error).splitlines()[0]
        raise BookError(
            where, f"not valid ({reason})", "correct it in Jupyter"
        ) from None
    return nbformat.reads(text, as_version=4)


def _is_format_4_5(content: object) -> bool:
    if not isinstance(content, dict):
        return False
    return content.get("nbformat") == 4 and content.get("nbformat_minor") == 5


def notebook_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def write_notebook(notebook: NotebookNode, path: Path, root: Path) -> None:
    write_text(path, notebook_text(notebook), root)


def write_changed(
    pairs: Iterable[tuple[Any, Any]], root: Path, texts: Mapping[str, str] | None = None
) -> list[str]:
    """Write what has changed, all or nothing, and return the paths.

    Of each pair of chapters, or of recordings, the second is written where it is not the
    first; `texts` are other files by path, written where they hold something else.
    """
    changed = {}
    for old, new in pairs:
        if new.notebook != old.notebook:
            changed[new.where] = notebook_text(new.notebook)
    for where, text in (texts or {}).items():
        if text != read_text(root / where, root):
            changed[where] = text
    write_files({root / where: text for where, text in changed.items()}, root)
    return list(changed)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def printed_text(cell: NotebookNode) -> str:
    """Return what an executed cell printed, its errors and warnings included."""
    return "".join(
        output.text for output in cell.outputs if output.output_type == "stream"
    )
