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
# The chapters that have a page of their own: an edition in another framework has none.
CHAPTERS = sorted(name for name in STEMS if Chapter(name, None).page_name == name)


def code(id, source, tags=(), **fields):
    metadata = {"tags": list(tags)} if tags else {}
    return new_code_cell(source, id=id, metadata=metadata, **fields)


def prose(id, source):
    return new_markdown_cell(source, id=id)


def notebook(*cells, **metadata):
    hardware = {"hardware": {"gpus": [0, 1, 2]}}
    empty = new_notebook(metadata=hardware | deepcopy(LANGUAGE) | metadata)
    # Not through new_notebook, which would rename an id that is there twice.
    empty.cells = list(cells)
    return empty


def write(root, name, *cells, **metadata):
    path = root / "notebooks" / f"{name}.ipynb"
    text = nbformat.writes(notebook(*cells, **metadata))
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read(path) -> NotebookNode:
    """Read a notebook as it is: `nbformat.read` renames an id that is there twice."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def cell(notebook, id):
    return next(cell for cell in notebook.cells if cell.id == id)


def is_lesson(name):
    return Chapter(name, read(ROOT / f"notebooks/{name}.ipynb")).kind == "lesson"


LESSONS = [name for name in CHAPTERS if is_lesson(name)]


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
    path.write_text(json.dumps(specification(runner) | changes))


def specification(runner):
    return json.loads((ROOT / "kernels" / runner / "kernel.json").read_text())


def copy_code(root, folder):
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / folder, root / folder, ignore=compiled)


def command(*arguments):
    return [sys.executable, "-m", "tools", *arguments]


def bare_environment():
    """Return this process's variables, without those that lead to another book."""
    names = os.environ.keys() - {"PYTHONPATH", "JUPYTER_PATH"}
    return {name: os.environ[name] for name in names}


def run_tool(root, *arguments, **variables):
    return subprocess.run(
        command(*arguments),
        cwd=root,
        env=bare_environment() | variables,
        capture_output=True,
        text=True,
    )


def start_tool(root, *arguments, variables=None, **streams):
    """Start a command that heeds Ctrl-C, also where these tests run in the background."""
    heed_interrupts = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command(*arguments),
        cwd=root,
        env=bare_environment() | (variables or {}),
        preexec_fn=heed_interrupts,
        **streams,
    )


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_one_line(text, *parts):
    """Assert that a message is one line and holds every one of `parts`."""
    assert len(text.strip().splitlines()) == 1, text
    for part in parts:
        assert part in text, text


@contextmanager
def refused(*parts):
    """Assert that the block raises a BookError of one line that holds all `parts`."""
    with pytest.raises(BookError) as error:
        yield error
    message = str(error.value)
    assert_one_line(message, *parts)
    # `git checkout` throws work away, so no message advises it.
    assert "checkout" not in message
