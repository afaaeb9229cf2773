"""Tiny notebooks for tiny books, and the real book's places."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
HARDWARE = {"gpus": [0, 1, 2]}


def code(id, source, tags=(), **fields):
    """A code cell; `fields` may hold outputs and an execution_count."""
    return new_code_cell(source, id=id, metadata={"tags": list(tags)} if tags else {}, **fields)


def prose(id, source):
    return new_markdown_cell(source, id=id)


def notebook(*cells, **metadata):
    made = new_notebook(metadata={"hardware": HARDWARE} | metadata)
    made.cells = list(cells)  # not through new_notebook: it would mend an id that is there twice
    return made


def write(root, name, *cells, **metadata):
    """Write the chapter `name` of the book in `root`."""
    path = root / "notebooks" / f"{name}.ipynb"
    path.write_text(nbformat.writes(notebook(*cells, **metadata)) + "\n", encoding="utf-8")
    return path


def read(path) -> NotebookNode:
    """A notebook as it is: `nbformat.read` would mend an id that is there twice."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def cell(notebook, id):
    return next(cell for cell in notebook.cells if cell.id == id)


def edit(root, name, id, source):
    """Change the text of one cell of a chapter."""
    path = root / "notebooks" / f"{name}.ipynb"
    chapter = read(path)
    cell(chapter, id).source = source
    nbformat.write(chapter, path)


def contents(folder):
    """What a folder holds, byte for byte, and when each file was last written."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def command(*arguments):
    return [sys.executable, "-m", "book.tools", *arguments]


def bare_environment():
    """This process's variables, less those that let another book or its kernels be found."""
    return {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH", "JUPYTER_PATH"}}


def run_tool(root, *arguments):
    """Run a command of the tools in `root`, which holds a copy of them."""
    return subprocess.run(
        command(*arguments),
        cwd=root,
        env=bare_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def assert_one_line(text, *parts):
    """A message fit for a terminal: one line that holds every one of `parts`."""
    assert len(text.strip().splitlines()) == 1, text
    for part in parts:
        assert part in text, text
