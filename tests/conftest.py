"""Tiny books: each test gets its own, and none writes into the repository."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from filelock import FileLock
from helpers import ROOT, code, edit, prose, run_tool, write
from making import WHERE, keep, make_book, stand_in

from tools.book.book import Book
from tools.book.links import write_links
from tools.record.execute import one_at_a_time
from tools.record.record import record
from tools.site.site import SITE, build_site, is_current

# A shell that starts this suite in the background has it ignore SIGINT, and so would every
# process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_kernels(monkeypatch):
    """Kernels of one test's book are not found by the next."""
    monkeypatch.delenv("JUPYTER_PATH", raising=False)


@pytest.fixture
def small_book(tmp_path):
    return make_book(tmp_path / "book")


CONFIG = """\
title: A tiny book # kept
repository:
  url: https://github.com/someone/tiny
  branch: main
  hub: none
"""
README = "# Tiny\n\n<!-- links -->\n<!-- end -->\n\nThe end.\n"


@pytest.fixture
def linked_book(small_book):
    """That book with links to where it is published, and outputs that no kernel printed."""
    (small_book / "_config.yml").write_text(CONFIG)
    (small_book / "README.md").write_text(README)
    package = Path("cudasim", "src", "cudasim")
    (small_book / package).mkdir(parents=True)
    for name in (Path("cudasim", "pyproject.toml"), package / "__init__.py"):
        shutil.copy(ROOT / name, small_book / name)
    setup = code("setup", "", tags=["setup"])
    write(small_book, "second", prose("title", "# Second"), setup, code("sum", "2 + 2"))
    write_links(Book(small_book))
    for name in ("first", "second"):
        keep(small_book, name, "cpu", {})
    return small_book


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Make a folder once for all workers of a run: `once(name, make)` calls `make(folder)`."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent

    def make_once(name, make):
        folder = base / name
        unfinished = base / f"{name}.part"
        with FileLock(base / f"{name}.lock"):
            if not folder.exists():
                make(unfinished)
                unfinished.rename(folder)
        return folder

    return make_once


@pytest.fixture(scope="session")
def recorded(once):
    """The root of that book, executed on `cpu` once for all tests: only read it."""

    def make(root):
        make_book(root)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("JUPYTER_PATH", raising=False)
            record(["cpu"], [], Book(root))

    return once("recorded", make)


@pytest.fixture
def recorded_book(recorded, tmp_path):
    return shutil.copytree(recorded, tmp_path / "book")


@pytest.fixture(scope="session")
def recorded_on_gpus(recorded, once):
    """That book, executed on simulated GPUs that stand in for real ones: only read it.

    The recorder runs as a command, as it does for anyone who has a GPU.
    """

    def make(root):
        shutil.copytree(recorded, root)
        stand_in(root)
        edit(root, "first", "show", WHERE)
        record(["cpu"], ["first"], Book(root))
        run = run_tool(root, "record", "gpu")
        assert run.returncode == 0, run.stderr

    return once("recorded-on-gpus", make)


@pytest.fixture
def gpu_book(recorded_on_gpus, tmp_path):
    return shutil.copytree(recorded_on_gpus, tmp_path / "book")


@pytest.fixture(scope="session")
def site():
    """The folder of this repository's site, built if an input of it changed."""
    # Another process of these tests may need it, too.
    with one_at_a_time(ROOT):
        if is_current(ROOT):
            return ROOT / SITE
        return build_site(ROOT)
