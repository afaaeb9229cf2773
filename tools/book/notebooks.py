"""Notebooks: read as they are, with one line about what is wrong; written in one step."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import nbformat
from nbformat import NotebookNode

from tools.errors import BookError
from tools.files import read_text, write_files, write_text


class Kept(Protocol):
    """What has a notebook in a file: a chapter, a recording."""

    where: str
    notebook: NotebookNode


def read_notebook(path: Path, root: Path) -> NotebookNode:
    """The notebook at `path`, valid and with ids (nbformat 4.5), or BookError."""
    where = path.relative_to(root).as_posix()
    text = read_text(path, root)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise BookError(f"{where}: not valid JSON ({error}); correct it there") from None
    version = ("nbformat", "nbformat_minor")
    if not isinstance(content, dict) or [content.get(key) for key in version] != [4, 5]:
        raise BookError(f"{where}: not a notebook of format 4.5; save it with a current Jupyter")
    ids = [cell.get("id") for cell in content.get("cells", [])]  # nbformat would rename the second
    for id in ids:
        if ids.count(id) > 1:
            raise BookError(f"{where}: two cells have the id '{id}'; rename one of them")
    try:
        nbformat.validate(content)
    except nbformat.ValidationError as error:
        reason = str(error).splitlines()[0]
        raise BookError(f"{where}: not valid ({reason}); correct it in Jupyter") from None
    return nbformat.reads(text, as_version=4)


def notebook_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


def write_notebook(notebook: NotebookNode, path: Path, root: Path) -> None:
    write_text(path, notebook_text(notebook), root)


def write_changed(pairs: Iterable[tuple[Kept, Kept]], root: Path) -> list[str]:
    """Write of each pair the second where it is not the first, all or none; returns the paths."""
    changed = {new.where: new.notebook for old, new in pairs if new.notebook != old.notebook}
    write_files({root / where: notebook_text(made) for where, made in changed.items()}, root)
    return list(changed)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])
