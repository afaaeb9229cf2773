"""Make tiny books: their chapters, their recordings, and what a site is drawn with."""

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
    specification,
    write,
)
from nbformat.v4 import new_output

from tools.book.book import Book
from tools.book.notebooks import code_cells, write_notebook
from tools.book.recordings import make_recording, outputs_digest
from tools.book.repository import services_row
from tools.book.runners import SANITIZE, SANITIZE_MODELLED
from tools.environment import REQUIREMENTS

RECORDED_FILES = sorted((ROOT / "outputs").glob("*/*.ipynb"))
# Pairs of (runner or card, chapter).
RECORDED = sorted((path.parent.name, path.stem) for path in RECORDED_FILES)
CARD = "2xsimulated-gpu-t4"  # the folder of what the stand-in for real GPUs prints
WHERE = """\
import torch
print('x is', x)
torch.empty(0, device='cuda' if torch.cuda.is_available() else 'cpu').device"""
# The terms of the glossary that a legend links to.
TERMS = ("Runner", "Modelled time", "Measured time")
PROVENANCE = {
    "date": "2026-01-31",
    "seconds": 1.25,
    "hardware": "a processor",
    "python": "3.11.0",
    "versions": {"torch": "2.0"},
}
H100 = {"runner": "gpu", "card": "NVIDIA H100", "cuda": "12.4", "driver": "550.1"}


@contextmanager
def changed(path):
    """Yield the notebook in `path`, and write it as the block leaves it."""
    notebook = read(path)
    yield notebook
    nbformat.write(notebook, path)


def text(words, stream="stdout"):
    return new_output("stream", name=stream, text=words)


def display(content, kind="text/plain"):
    return new_output("display_data", data={kind: content})


def keep(root, name, folder, printed, **facts):
    """Record outputs that no kernel printed: `printed` has them by the id of a cell."""
    book = Book(root)
    chapter = book.chapters[name]
    runner = book.runners[facts.get("runner", folder)]

    executed = deepcopy(chapter.notebook)
    for number, executed_cell in enumerate(code_cells(executed), start=1):
        executed_cell.outputs = printed.get(executed_cell.id, [])
        executed_cell.execution_count = number

    kernel = runner.digest(chapter)
    provenance = PROVENANCE | {"chapter": name, "runner": folder, "kernel": kernel}
    provenance |= facts
    make_recording(chapter, runner, folder, executed, provenance).write(root)
    return outputs_path(name, folder, root)


def falsify(path, id, outputs):
    """Change what a cell is recorded to have printed, and the digest with it."""
    with changed(path) as recorded:
        cell(recorded, id).outputs = outputs
        recorded.metadata.provenance.digest = outputs_digest(recorded)


def stand_in(root):
    """Let simulated GPUs with a real clock stand in for the real ones of a book."""
    copy_code(root, "cudasim/src")
    words = specification("simulated")["argv"]
    argv = [word for word in words if word not in ("--clock", "modelled")]
    metadata = specification("gpu")["metadata"]
    copy_kernel(root, "simulated", "gpu", argv=argv, metadata=metadata)


def dress(root):
    """Give a book all that this book's pages are drawn with, and links to services."""
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


COPIED = ("kernels/start.py", SANITIZE, SANITIZE_MODELLED, *REQUIREMENTS)
TOC = """\
format: jb-book
root: book/preface
chapters:
  - file: notebooks/first
  - file: notebooks/second
"""


def make_book(root):
    """Write a book of two chapters, with a copy of the tools and the runner `cpu`."""
    copy_code(root, "tools")
    copy_code(root, "coursework")
    draw_by(root)
    (root / "book").mkdir()
    (root / "book" / "preface.md").write_text("# A tiny book\n")
    copy_code(root, "kernels/cpu")
    for name in COPIED:
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
    """Return the bytes and the time of every file below `folder`."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def kernels_of(root):
    """Return the processes whose command names a kernel of the book in `root`."""
    kernels = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = " ".join(process.info["cmdline"] or [])
        is_alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if str(root / "kernels") in command and is_alive:
            kernels.append(process)
    return kernels
