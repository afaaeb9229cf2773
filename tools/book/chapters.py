"""Chapters: the source notebooks, their order, the keys of their cells, and faults in them."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from tools.book.grammar import SETUP, TAGS, Kind
from tools.book.notebooks import code_cells, read_notebook, tags, write_changed
from tools.errors import BookError
from tools.files import digest, read_beside, read_yaml

# The frameworks that chapters are written in, and what the package of each is called.
FRAMEWORKS = {
    "pytorch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "mxnet": "MXNet",
}
PACKAGES = {
    "pytorch": "torch",
    "jax": "jax",
    "tensorflow": "tensorflow-cpu",
    "mxnet": "mxnet",
}
MAIN = "pytorch"  # that of a chapter whose name ends in none

METADATA = read_beside(__file__, "metadata.yml")
LANGUAGE = METADATA["language"]
FOLDED = METADATA["folded"]


@dataclass(frozen=True)
class Chapter:
    """A source notebook of the book."""

    name: str
    notebook: NotebookNode = field(repr=False)

    @property
    def where(self) -> str:
        return f"notebooks/{self.name}.ipynb"

    @property
    def framework(self) -> str:
        end = self.name.rpartition("-")[2]
        return end if end in FRAMEWORKS else MAIN

    @property
    def page_name(self) -> str:
        """The name of the chapter whose page it is on: its own, or the main framework's."""
        return self.name.removesuffix(f"-{self.framework}")

    @property
    def title(self) -> str:
        first_line = self.notebook.cells[0].source.partition("\n")[0]
        return first_line.lstrip("# ")

    @property
    def kind(self) -> str:
        """Its Kind, by its metadata; `read_chapter` refuses any other word."""
        return self.notebook.metadata.get("kind", Kind.LESSON)

    @property
    def holds_puzzles(self) -> bool:
        """Whether it is made of exercises alone, and simulates the GPUs that they are about."""
        return self.kind == Kind.PUZZLES

    @property
    def gpus(self) -> int:
        """How many GPUs it needs at least."""
        return min(self.notebook.metadata.hardware.gpus)

    @property
    def gpu_memory(self) -> float:
        """The GiB that it needs on each GPU."""
        return self.notebook.metadata.hardware.get("gpu_memory", 0)

    @cached_property
    def code_cells(self) -> list[NotebookNode]:
        return code_cells(self.notebook)

    @cached_property
    def setup_cells(self) -> list[NotebookNode]:
        return [cell for cell in self.code_cells if SETUP in tags(cell)]

    @cached_property
    def keyed_cells(self) -> list[NotebookNode]:
        return [cell for cell in self.code_cells if SETUP not in tags(cell)]

    @cached_property
    def keys(self) -> dict[str, str]:
        """The key of every code cell, by cell id.

        A key is the hash of the cell's code and of all code cells before it, those for the
        setup excepted: outputs recorded under the same key were made by the same code.
        """
        keys = {}
        sources = []
        for cell in self.code_cells:
            if SETUP not in tags(cell):
                sources.append(cell.source)
            keys[cell.id] = digest(sources)
        return keys


@dataclass(frozen=True)
class Fault:
    """What is wrong with a chapter, what to do, and the cell in which it is, if in one."""

    cell: NotebookNode | None
    words: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.words}; {self.advice}" if self.advice else self.words


Faults = Iterator[Fault]


def read_chapter(name: str, root: Path) -> Chapter:
    """Return the chapter `name` of the book in `root`.

    Raises BookError if it is not what a chapter is.
    """
    chapter = _open_chapter(name, root)
    if not chapter.code_cells:
        raise BookError(
            chapter.where, "no code cell", f"move it to book/{name}.md, as Markdown"
        )
    if chapter.kind not in list(Kind):
        raise BookError(
            chapter.where,
            f"its metadata call it a '{chapter.kind}'",
            f"use one of {', '.join(Kind)}",
        )
    for number, cell in enumerate(chapter.notebook.cells):
        _check_cell(cell, f"{chapter.where}: cell {number} ('{cell.id}')")

    hardware = chapter.notebook.metadata.get("hardware")
    if not isinstance(hardware, dict) or not hardware.get("gpus"):
        words = "its metadata do not say what hardware it is for"
        raise BookError(chapter.where, f'{words}: "hardware": {{"gpus": [0, 1, 2]}}')
    return chapter


def _open_chapter(name: str, root: Path) -> Chapter:
    path = root / "notebooks" / f"{name}.ipynb"
    return Chapter(name, read_notebook(path, root))


def _check_cell(cell: NotebookNode, place: str) -> None:
    for tag in tags(cell):
        if tag not in TAGS:
            raise BookError(
                f"{place} has the tag '{tag}', which nothing reads",
                advice=f"use one of {', '.join(sorted(TAGS))}",
            )
    if cell.cell_type != "code":
        return
    if cell.outputs or cell.execution_count is not None:
        raise BookError(
            f"{place} holds outputs",
            advice="chapters have none: 'python -m tools clear'",
        )


def read_documents(root: Path) -> list[str]:
    """Return every document that `_toc.yml` lists, without its suffix, in order."""
    toc = read_yaml(root / "_toc.yml", root)
    if "root" not in toc:
        raise BookError(
            "_toc.yml", "names no first page", "add it there: 'root: book/preface'"
        )
    documents = list(_files(toc))
    for document in documents:
        paths = [root / f"{document}.md", root / f"{document}.ipynb"]
        if not any(path.is_file() for path in paths):
            raise BookError(
                "_toc.yml", f"'{document}' has no file", "add one, or drop the entry"
            )
    return documents


def _files(entry: dict | list) -> Iterator[str]:
    """Yield the files that a table of contents names, at any depth."""
    items = entry.items() if isinstance(entry, dict) else enumerate(entry)
    for name, value in items:
        if name in ("root", "file"):
            yield str(value)
        elif isinstance(value, dict | list):
            yield from _files(value)


def chapter_names(documents: list[str], root: Path) -> list[str]:
    """Return the chapters among documents, each followed by the same in other frameworks."""
    names = []
    for document in documents:
        if not document.startswith("notebooks/"):
            continue
        name = Path(document).name
        names.append(name)
        for framework in FRAMEWORKS:
            if (root / "notebooks" / f"{name}-{framework}.ipynb").is_file():
                names.append(f"{name}-{framework}")
    return names


def clear_outputs(root: Path) -> list[str]:
    """Take outputs, counts and the kernel's name out of the chapters.

    Returns the paths of the chapters that it changed.
    """
    pairs = []
    for name in chapter_names(read_documents(root), root):
        chapter = _open_chapter(name, root)
        before = deepcopy(chapter)
        for cell in chapter.code_cells:
            cell.outputs = []
            cell.execution_count = None
        chapter.notebook.metadata |= deepcopy(LANGUAGE)
        pairs.append((before, chapter))
    return write_changed(pairs, root)
