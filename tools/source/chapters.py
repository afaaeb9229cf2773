"""Chapters: the source notebooks, their order, and the keys of their cells."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

from tools.errors import BookError

ROOT = Path(__file__).resolve().parents[2]
SETUP = "setup"  # tag of the cell that installs what a reader lacks; no key covers it


def chapter_names(root: Path = ROOT) -> list[str]:
    """The names of all chapters, in the order of `_toc.yml`.

    Raises BookError if an entry of `_toc.yml` has no file, or a chapter no entry.
    """
    documents = toc_documents(root)
    listed = [Path(document).name for document in documents if document.startswith("notebooks/")]
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        if path.stem not in listed:
            raise BookError(
                f"_toc.yml: notebooks/{path.name} is not listed; add 'file: notebooks/{path.stem}'"
            )
    return listed


def toc_documents(root: Path = ROOT) -> list[str]:
    """Every document that `_toc.yml` lists, without its suffix, in order.

    Raises BookError if `_toc.yml` cannot be read, or lists a document that has no file.
    """
    try:
        toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BookError("_toc.yml: no such file; restore it with 'git checkout _toc.yml'") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise BookError(f"_toc.yml: not valid YAML; mend it there: {where}") from None
    if not isinstance(toc, dict) or "root" not in toc:
        raise BookError(
            "_toc.yml: no 'root' entry; name the first page there: 'root: book/preface'"
        )
    documents = list(_files(toc))
    for document in documents:
        if not any((root / f"{document}{suffix}").is_file() for suffix in (".md", ".ipynb")):
            raise BookError(
                f"_toc.yml: '{document}' has no file; add {document}.md or .ipynb, or drop it"
            )
    return documents


def _files(entry: object) -> Iterator[str]:
    if isinstance(entry, list):
        for item in entry:
            yield from _files(item)
    elif isinstance(entry, dict):
        for name, value in entry.items():
            if name in ("root", "file"):
                yield str(value)
            else:
                yield from _files(value)


def read_chapter(name: str, root: Path = ROOT) -> NotebookNode:
    """The source notebook of the chapter `name`.

    Raises BookError if it is no valid notebook, holds outputs, has a cell id twice,
    or does not say in its metadata what hardware it is for.
    """
    chapter = read_notebook(root / "notebooks" / f"{name}.ipynb", root)
    where = f"notebooks/{name}.ipynb"
    for number, cell in enumerate(chapter.cells):
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            raise BookError(
                f"{where}: cell {number} ('{cell.id}') holds outputs; chapters have none: "
                "clear them with 'make clear'"
            )
    hardware = chapter.metadata.get("hardware")
    if not isinstance(hardware, dict) or not hardware.get("gpus"):
        raise BookError(
            f"{where}: its metadata lack 'hardware'; say which numbers of GPUs it is for: "
            '"hardware": {"gpus": [0, 1, 2]}'
        )
    return chapter


def read_notebook(path: Path, root: Path = ROOT) -> NotebookNode:
    """The notebook at `path`, valid and with ids (nbformat 4.5), or BookError."""
    where = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except FileNotFoundError:
        raise BookError(f"{where}: no such file; restore it with 'git checkout {where}'") from None
    except ValueError as error:  # no JSON, or no UTF-8
        raise BookError(
            f"{where}: not valid JSON ({error}); mend it there, or 'git checkout {where}'"
        ) from None
    if not isinstance(content, dict) or not _is_format_4_5(content):
        raise BookError(f"{where}: not a notebook of format 4.5; save it with a current Jupyter")
    ids = [cell.get("id") for cell in content.get("cells", [])]  # nbformat would rename the second
    for id in ids:
        if ids.count(id) > 1:
            raise BookError(f"{where}: two cells have the id '{id}'; rename one of them")
    try:
        nbformat.validate(content)
    except nbformat.ValidationError as error:
        reason = str(error).splitlines()[0]
        raise BookError(f"{where}: not a valid notebook ({reason}); mend it in Jupyter") from None
    return nbformat.reads(text, as_version=4)


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook in one step: readers see the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    try:
        half.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def _is_format_4_5(content: dict) -> bool:
    return (content.get("nbformat"), content.get("nbformat_minor")) == (4, 5)


def clear_outputs(root: Path = ROOT) -> list[str]:
    """Take outputs and execution counts out of the chapters; returns those it changed."""
    changed = []
    for name in chapter_names(root):
        path = root / "notebooks" / f"{name}.ipynb"
        chapter = read_notebook(path, root)
        for cell in code_cells(chapter):
            if cell.outputs or cell.execution_count is not None:
                cell.outputs, cell.execution_count = [], None
                changed.append(name)
        if name in changed:
            write_notebook(chapter, path)
    return sorted(set(changed))


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells of `notebook`, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell, [] if it has none."""
    return cell.metadata.get("tags", [])


def cell_keys(chapter: NotebookNode) -> dict[str, str]:
    """The key of every code cell, by cell id.

    A key is the hash of the cell's code and of all code cells before it, the set-up
    cell excepted: outputs recorded under the same key were made by the same code.
    """
    digest, keys = hashlib.sha256(), {}
    for cell in code_cells(chapter):
        if SETUP not in tags(cell):
            digest.update(cell.source.encode() + b"\0")
        keys[cell.id] = digest.hexdigest()[:16]
    return keys
