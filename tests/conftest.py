"""Tiny books: each test gets its own, and none writes into the repository."""

import shutil

import pytest
from helpers import ROOT, code, prose, write

from book.tools.execute import record
from book.tools.site import build_site

TOC = """\
format: jb-book
root: book/preface
chapters:
  - file: notebooks/first
  - file: notebooks/second
"""


def make_book(root):
    """Write a book of two chapters to `root`, with a copy of the tools and the runners."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "book" / "tools", root / "book" / "tools", ignore=ignored)
    # These tests are about what comes before the site is built.
    (root / "book" / "tools" / "site.py").write_text("def build_site():\n    print('site')\n")
    (root / "book" / "__init__.py").touch()
    (root / "book" / "preface.md").write_text("# A tiny book\n")
    shutil.copytree(ROOT / "kernels", root / "kernels", ignore=ignored)
    for name in ("requirements.txt", "requirements-no-deps.txt"):
        shutil.copy(ROOT / name, root)
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


@pytest.fixture(autouse=True)
def own_kernels(monkeypatch):
    """Kernels of one test's book are not found by the next."""
    monkeypatch.delenv("JUPYTER_PATH", raising=False)


@pytest.fixture
def small_book(tmp_path):
    """The root of a book of two chapters that were never executed."""
    return make_book(tmp_path / "book")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The root of that book, executed on `cpu`: executed once, so read it only."""
    root = make_book(tmp_path_factory.mktemp("recorded") / "book")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JUPYTER_PATH", raising=False)
        record(["first", "second"], "cpu", root)
    return root


@pytest.fixture
def recorded_book(recorded, tmp_path):
    """A copy of the executed book, to be changed at will."""
    return shutil.copytree(recorded, tmp_path / "book")


@pytest.fixture(scope="session")
def site():
    """The folder of this repository's site, built if an input of it changed."""
    return build_site()
