"""Tiny books: made, dressed for a site, and what was recorded of them; commands run in them."""

import json
import shutil
from contextlib import contextmanager
from copy import deepcopy

import nbformat
import psutil
from helpers import (
    ROOT,
    cell,
    code,
    copy_code,
    copy_kernel,
    outputs_path,
    prose,
    read,
    write,
)
from nbformat.v4 import new_output

from tools.book.book import Book
from tools.book.links import services_row
from tools.book.notebooks import code_cells, write_notebook
from tools.book.recordings import make_recording, outputs_digest
from tools.book.runners import SANITIZE, SANITIZE_MODELLED

RECORDED = sorted(  # (runner or card, chapter)
    (path.parent.name, path.stem) for path in (ROOT / "outputs").glob("*/*.ipynb")
)
CARD = "2xsimulated-gpu-t4"  # the folder of what the stand-in for real GPUs prints
WHERE = """\
import torch
print('x is', x)
torch.empty(0, device='cuda' if torch.cuda.is_available() else 'cpu').device"""
TERMS = (
    "Runner",
    "Modelled time",
    "Measured time",
)  # of the glossary, that a legend links to
PROVENANCE = {"date": "2026-01-31", "seconds": 1.25, "hardware": "a processor"}
PROVENANCE |= {"python": "3.11.0", "versions": {"torch": "2.0"}}
H100 = {"runner": "gpu", "card": "NVIDIA H100", "cuda": "12.4", "driver": "550.1"}


@contextmanager
def changed(path):
    """The notebook in `path`, to be changed: it is written as the block leaves it."""
    notebook = read(path)
    yield notebook
    nbformat.write(notebook, path)


def text(words, stream="stdout"):
    return new_output("stream", name=stream, text=words)


def display(**data):
    """An output of several forms: `text_plain="1"` for `text/plain`."""
    forms = {name.replace("_", "/"): content for name, content in data.items()}
    return new_output("display_data", data=forms)


def keep(root, name, folder, printed, **facts):
    """Write outputs that no kernel printed: `printed` has those of each cell, by its id."""
    book = Book(root)
    chapter, runner = book.chapters[name], book.runners[facts.get("runner", folder)]
    executed = deepcopy(chapter.notebook)
    for number, made in enumerate(code_cells(executed), start=1):
        made.outputs, made.execution_count = printed.get(made.id, []), number
    provenance = PROVENANCE | {
        "chapter": name,
        "runner": folder,
        "kernel": runner.digest(chapter),
    }
    provenance |= facts
    make_recording(chapter, runner, folder, executed, provenance).write(root)
    return outputs_path(name, folder, root)


def falsify(path, id, outputs):
    """Change what a cell is recorded to have printed, so that the hash does not tell."""
    with changed(path) as recorded:
        cell(recorded, id).outputs = outputs
        recorded.metadata.provenance.digest = outputs_digest(recorded)


def specification(runner):
    return json.loads((ROOT / "kernels" / runner / "kernel.json").read_text())


def stand_in(root):
    """Let simulated GPUs stand in for the real ones of the book in `root`, by a real clock."""
    copy_code(root, "cudasim/src")
    words = specification("simulated")["argv"]
    argv = [word for word in words if word not in ("--clock", "modelled")]
    copy_kernel(
        root, "simulated", "gpu", argv=argv, metadata=specification("gpu")["metadata"]
    )


def dress(root):
    """Give the book in `root` all that this book's pages are drawn with, and links to services."""
    for folder in ("coursework", "tools", "book/static", "book/templates", "img"):
        shutil.rmtree(root / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, root / folder)
    shutil.copy(ROOT / "_config.yml", root)
    terms = "".join(f"\n## {term}\n\nIt is.\n" for term in TERMS)
    (root / "book" / "glossary.md").write_text(f"# Glossary\n{terms}")
    (root / "book" / "simulation.md").write_text("# Simulation\n")
    with (root / "_toc.yml").open("a") as toc:
        toc.write("  - file: book/glossary\n  - file: book/simulation\n")
    book = Book(root)
    for chapter in book.chapters.values():
        row = services_row(chapter.where, book.repository)
        chapter.notebook.cells.insert(1, prose("links", f"Run this chapter: {row}"))
        write_notebook(chapter.notebook, root / chapter.where, root)


# What draws a site, as far as files are concerned: `fault` comes at the end.
BUILDER = """
import sys
from pathlib import Path
built = Path(sys.argv[2], "_build", "html")
built.mkdir(parents=True)
(built / "index.html").write_text("new")
(built / "index.js.map").write_text("for nobody")
{fault}
"""


def draw_by(root, fault=""):
    """Let this program draw the site of the book in `root`."""
    (root / "tools" / "site" / "builder.py").write_text(BUILDER.format(fault=fault))


TOC = """\
format: jb-book
root: book/preface
chapters:
  - file: notebooks/first
  - file: notebooks/second
"""


def make_book(root):
    """Write a book of two chapters to `root`, with a copy of the tools and the runner `cpu`."""
    copy_code(root, "tools")
    copy_code(root, "coursework")
    draw_by(root)
    (root / "book").mkdir()
    (root / "book" / "preface.md").write_text("# A tiny book\n")
    copy_code(root, "kernels/cpu")
    for name in (
        "kernels/start.py",
        SANITIZE,
        SANITIZE_MODELLED,
        "requirements.txt",
        "requirements-no-deps.txt",
    ):
        shutil.copy(ROOT / name, root / name)
    (root / "_toc.yml").write_text(TOC)
    (root / "notebooks").mkdir()
    write(
        root,
        "first",
        prose("title", "# First"),
        code("setup", "import sys", tags=["setup"]),
        code("make", "x = 1"),
        code("show", "print('x is', x)\nx + 1"),
    )
    write(root, "second", prose("title", "# Second"), code("sum", "2 + 2"))
    return root


def contents(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def kernels_of(root):
    """The processes whose command names a kernel of the book in `root`."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(root / "kernels") in " ".join(process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
