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
    """The notebook at `path`, valid and with ids (nbformat 4.5), or BookError."""
    where = path.relative_to(root).as_posix()
    text = read_text(path, root)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BookError(
            f"{where}: not valid JSON ({error}); correct it there"
        ) from None
    version = ("nbformat", "nbformat_minor")
    if not isinstance(content, dict) or [content.get(key) for key in version] != [4, 5]:
        raise BookError(
            f"{where}: not a notebook of format 4.5; save it with a current Jupyter"
        )
    ids = [
        cell.get("id") for cell in content.get("cells", [])
    ]  # nbformat would rename the second
    for id in ids:
        if ids.count(id) > 1:
            raise BookError(
                f"{where}: two cells have the id '{id}'; rename one of them"
            )
    try:
        nbformat.validate(content)
    except nbformat.ValidationError as error:
        reason = str(error).splitlines()[0]
        raise BookError(
            f"{where}: not valid ({reason}); correct it in Jupyter"
        ) from None
    return nbformat.reads(text, as_version=4)


def notebook_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def write_notebook(notebook: NotebookNode, path: Path, root: Path) -> None:
    write_text(path, notebook_text(notebook), root)


def write_changed(
    pairs: Iterable[tuple[Any, Any]], root: Path, texts: Mapping[str, str] | None = None
) -> list[str]:
    """Write of each pair of chapters or recordings the second where it is not the first, and
    `texts` of other files that hold something else; all or none. Returns the paths."""
    changed = {
        n.where: notebook_text(n.notebook) for o, n in pairs if n.notebook != o.notebook
    }
    changed |= {
        w: text
        for w, text in (texts or {}).items()
        if text != read_text(root / w, root)
    }
    write_files({root / where: text for where, text in changed.items()}, root)
    return list(changed)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])
