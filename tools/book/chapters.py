"""Chapters: the source notebooks, their order, and the keys of their cells."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode

from tools.book.grammar import SETUP, TAGS
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


@dataclass(frozen=True)
class Chapter:
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
    def page(self) -> str:
        """The chapter on whose page it is: itself, or the same in the main framework."""
        return self.name.removesuffix(f"-{self.framework}")

    @property
    def title(self) -> str:
        return self.notebook.cells[0].source.partition("\n")[0].lstrip("# ")

    @property
    def kind(self) -> str:
        """A `lesson`, to read from first to last; else `symptoms`, `puzzles` or `outcomes`."""
        return self.notebook.metadata.get("kind", "lesson")

    @property
    def holds_puzzles(self) -> bool:
        """True if it is made of exercises alone, and simulates the GPUs that they are about."""
        return self.kind == "puzzles"

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
        """The key of every code cell, by cell id. A key is the hash of the cell's code and of all
        code cells before it, those for the set-up excepted: outputs recorded under the same key
        were made by the same code."""
        sources, keys = [], {}
        for cell in self.code_cells:
            if SETUP not in tags(cell):
                sources.append(cell.source)
            keys[cell.id] = digest(sources)
        return keys


def read_chapter(name: str, root: Path) -> Chapter:
    """The chapter `name` of the book in `root`, or BookError if it is not what a chapter is."""
    chapter = Chapter(name, read_notebook(root / "notebooks" / f"{name}.ipynb", root))
    if not chapter.code_cells:
        raise BookError(
            f"{chapter.where}: no code cell; move it to book/{name}.md, as Markdown"
        )
    for number, cell in enumerate(chapter.notebook.cells):
        place = f"{chapter.where}: cell {number} ('{cell.id}')"
        if unknown := set(tags(cell)) - TAGS:
            advice = f"which nothing reads; use one of {', '.join(sorted(TAGS))}"
            raise BookError(f"{place} has the tag '{unknown.pop()}', {advice}")
        if cell.cell_type == "code" and (
            cell.outputs or cell.execution_count is not None
        ):
            raise BookError(
                f"{place} holds outputs; chapters have none: 'python -m tools clear'"
            )
    hardware = chapter.notebook.metadata.get("hardware")
    if not isinstance(hardware, dict) or not hardware.get("gpus"):
        missing = 'its metadata do not say what hardware it is for: "hardware": {"gpus": [0, 1, 2]}'
        raise BookError(f"{chapter.where}: {missing}")
    return chapter


def read_documents(root: Path) -> list[str]:
    """Every document that `_toc.yml` lists, without its suffix, in order."""
    toc = read_yaml(root / "_toc.yml", root)
    if "root" not in toc:
        raise BookError(
            "_toc.yml: names no first page; add it there: 'root: book/preface'"
        )
    documents = list(_files(toc))
    for document in documents:
        if not any(
            (root / f"{document}{suffix}").is_file() for suffix in (".md", ".ipynb")
        ):
            raise BookError(
                f"_toc.yml: '{document}' has no file; add one, or drop the entry"
            )
    return documents


def _files(entry: dict | list) -> Iterator[str]:
    for name, value in entry.items() if isinstance(entry, dict) else enumerate(entry):
        if name in ("root", "file"):
            yield str(value)
        elif isinstance(value, dict | list):
            yield from _files(value)


def chapter_names(documents: list[str], root: Path) -> list[str]:
    """The chapters among the documents, each followed by the same in other frameworks."""
    found = []
    for name in (
        Path(name).name for name in documents if name.startswith("notebooks/")
    ):
        others = (f"{name}-{framework}" for framework in FRAMEWORKS)
        found += [
            name,
            *(o for o in others if (root / "notebooks" / f"{o}.ipynb").is_file()),
        ]
    return found


def clear_outputs(root: Path) -> list[str]:
    """Take outputs, counts and the kernel's name out of the chapters; returns those it changed."""
    pairs = []
    for name in chapter_names(read_documents(root), root):
        chapter = Chapter(
            name, read_notebook(root / "notebooks" / f"{name}.ipynb", root)
        )
        pairs.append((deepcopy(chapter), chapter))
        for cell in chapter.code_cells:
            cell.outputs, cell.execution_count = [], None
        chapter.notebook.metadata |= deepcopy(LANGUAGE)
    return write_changed(pairs, root)
