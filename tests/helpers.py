"""Tiny notebooks for tiny books, and the real book's places."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.book.chapters import LANGUAGE, Chapter
from tools.book.recordings import recording_path
from tools.errors import BookError

ROOT = Path(__file__).resolve().parents[1]
STEMS = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
CHAPTERS = sorted(
    name for name in STEMS if Chapter(name, None).page == name
)  # those with a page


def code(id, source, tags=(), **fields):
    return new_code_cell(
        source, id=id, metadata={"tags": list(tags)} if tags else {}, **fields
    )


def prose(id, source):
    return new_markdown_cell(source, id=id)


def notebook(*cells, **metadata):
    made = new_notebook(
        metadata={"hardware": {"gpus": [0, 1, 2]}} | deepcopy(LANGUAGE) | metadata
    )
    made.cells = list(
        cells
    )  # not through new_notebook: it would rename an id that is there twice
    return made


def write(root, name, *cells, **metadata):
    path = root / "notebooks" / f"{name}.ipynb"
    path.write_text(
        nbformat.writes(notebook(*cells, **metadata)) + "\n", encoding="utf-8"
    )
    return path


def read(path) -> NotebookNode:
    """A notebook as it is: `nbformat.read` would rename an id that is there twice."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def cell(notebook, id):
    return next(cell for cell in notebook.cells if cell.id == id)


LESSONS = [
    n
    for n in CHAPTERS
    if Chapter(n, read(ROOT / f"notebooks/{n}.ipynb")).kind == "lesson"
]


def edit(root, name, id, source):
    path = root / "notebooks" / f"{name}.ipynb"
    chapter = read(path)
    cell(chapter, id).source = source
    nbformat.write(chapter, path)


def outputs_path(name, folder, root=ROOT):
    return root / recording_path(folder, name)


def copy_kernel(root, runner, name=None, **changes):
    """Give the book in `root` a kernel of this repository, changed or by another name."""
    path = root / "kernels" / (name or runner) / "kernel.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    own = json.loads((ROOT / "kernels" / runner / "kernel.json").read_text())
    path.write_text(json.dumps(own | changes))


def copy_code(root, folder):
    shutil.copytree(
        ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__")
    )


def command(*arguments):
    return [sys.executable, "-m", "tools", *arguments]


def bare_environment():
    """This process's variables, less those that let another book or its kernels be found."""
    return {
        name: os.environ[name]
        for name in os.environ.keys() - {"PYTHONPATH", "JUPYTER_PATH"}
    }


def run_tool(root, *arguments, **variables):
    options = {"cwd": root, "env": bare_environment() | variables}
    return subprocess.run(
        command(*arguments), **options, capture_output=True, text=True
    )


def start_tool(root, *arguments, variables=None, **streams):
    """Start such a command; it heeds Ctrl-C also where these tests run in the background."""
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    options = {"cwd": root, "env": bare_environment() | (variables or {})}
    return subprocess.Popen(command(*arguments), preexec_fn=heed, **options, **streams)


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_one_line(text, *parts):
    """A message fit for a terminal: one line that holds every one of `parts`."""
    assert len(text.strip().splitlines()) == 1, text
    for part in parts:
        assert part in text, text


@contextmanager
def refused(*parts):
    """The block raises BookError, with a message of one line that holds every one of `parts`."""
    with pytest.raises(BookError) as error:
        yield error
    assert_one_line(str(error.value), *parts)
    assert "checkout" not in str(error.value)  # it throws work away
