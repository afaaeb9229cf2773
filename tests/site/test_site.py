"""How the site is built: all or nothing, and again when an input has changed."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from helpers import (
    ROOT,
    assert_one_line,
    code,
    copy_kernel,
    edit,
    prose,
    refused,
    write,
)
from making import H100, draw_by, keep, text

from tools.book.book import Book
from tools.site import status
from tools.site.site import INPUTS, SITE, build_site, input_digests, is_current


@pytest.fixture
def built(small_book):
    """The root of a book with a site, whose page was changed since: to `old`."""
    build_site(small_book)
    (small_book / SITE / "index.html").write_text("old")
    return small_book


def leftovers(root):
    return sorted(path.name for path in (root / "_build").iterdir())


def page_of(root):
    return (root / SITE / "index.html").read_text()


LAST_GOOD = ["html", "inputs.json"]


@pytest.mark.parametrize(
    "fault", ["sys.exit(1)", "1 / 0", "import os; os.kill(os.getpid(), 9)"]
)
def test_a_build_that_fails_leaves_the_last_good_site(built, fault):
    draw_by(built, fault)
    with refused("the site was not built; see what is said above"):
        build_site(built)
    assert page_of(built) == "old"
    assert not is_current(built)
    assert leftovers(built) == LAST_GOOD


def test_a_build_that_is_stopped_leaves_no_process(built, monkeypatch):
    draw_by(built, "import time; time.sleep(60)")
    processes = []

    def stop(process, *arguments, **options):
        processes.append(process)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", stop)
    with pytest.raises(KeyboardInterrupt):
        build_site(built)
    assert processes[0].returncode == -signal.SIGKILL
    assert page_of(built) == "old"
    assert leftovers(built) == LAST_GOOD


def test_a_site_that_is_whole_takes_the_place_of_the_last_one(built):
    # A build that was killed left this.
    half = built / "_build" / "work" / "_build" / "html"
    half.mkdir(parents=True)
    (half / "half.html").write_text("half")
    site = build_site(built)
    assert page_of(built) == "new"
    assert leftovers(built) == LAST_GOOD
    assert list(site.iterdir()) == [site / "index.html"]


def test_a_site_that_cannot_be_written_is_one_line(built, monkeypatch):
    def fail(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    with refused(f"{SITE}: cannot be written"):
        build_site(built)


def test_a_site_is_current_until_an_input_changes(small_book):
    assert not is_current(small_book)
    build_site(small_book)
    # A date is no change.
    (small_book / "_toc.yml").touch()
    assert is_current(small_book)
    (small_book / SITE).rename(small_book / "away")
    assert not is_current(small_book)


def test_a_site_is_not_current_whose_input_changed_meanwhile(small_book):
    draw_by(small_book, 'Path("book", "preface.md").write_text("# Changed")')
    build_site(small_book)
    assert not is_current(small_book)


FOLDERS = "book cudasim/src img kernels notebooks outputs tools"
FILES = "_config.yml _toc.yml requirements.txt requirements-no-deps.txt"


def test_all_that_a_site_is_made_from_is_an_input():
    assert set(INPUTS) >= {*FOLDERS.split(), *FILES.split()}


@pytest.mark.parametrize("name", INPUTS)
def test_a_change_of_an_input_counts(tmp_path, name):
    path = tmp_path / name
    if (ROOT / name).is_dir():
        path = tmp_path / name / "below" / "file.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    assert (ROOT / name).exists()

    without = input_digests(tmp_path)
    path.write_text("before")
    before = input_digests(tmp_path)
    path.write_text("after")
    after = input_digests(tmp_path)
    assert without != before
    assert before != after


# Faults that Sphinx finds, in a book that it has drawn once.


@pytest.fixture
def drawn(tiny_book, tmp_path):
    return shutil.copytree(tiny_book, tmp_path / "book")


def refused_build(root, capfd):
    """Return what a build says, without colours, that fails."""
    with refused("the site was not built"):
        build_site(root)
    assert leftovers(root) == LAST_GOOD
    return re.sub(r"\x1b\[\d*m", "", capfd.readouterr().err)


# What is on a page, and what is said of it.
WARNINGS = {
    "[gone](gone.md)": "'gone.md'",
    "[gone](#gone)": "target not found: 'gone'",
    "[gone](../notebooks/first.ipynb#gone)": "local id not found in doc 'notebooks/first': 'gone'",
    "{py:func}`gone`": "py:func reference target not found: gone",
    r"$\gone$": r"formula has a command that cannot be drawn: \gone",
    r"$\frac{1$": r"formula cannot be drawn: \frac{1",
    "![A square](https://example.org/a.png)": "image whose size cannot be read: https://",
    "![A square](torn.png)": "image whose size cannot be read: book/torn.png",
    "![A square](styled.svg)": "style in a drawing would be the page's: book/styled.svg",
}
STYLED = """\
<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">
<style>* {}</style><text>A</text></svg>"""


def test_every_warning_is_said_and_fails_the_build(drawn, capfd):
    (drawn / "book" / "torn.png").write_bytes(b"no image")
    (drawn / "book" / "styled.svg").write_text(STYLED)
    with (drawn / "book" / "preface.md").open("a") as page:
        for fault in WARNINGS:
            page.write(f"\n{fault}\n")
    log = refused_build(drawn, capfd)
    warnings = [line for line in log.splitlines() if "WARNING" in line]
    warnings_of_page = "\n".join(line for line in warnings if "preface.md" in line)
    for words in WARNINGS.values():
        assert words in warnings_of_page, log


def test_a_broken_file_of_cudasim_fails_the_build_in_one_line(drawn, capfd):
    with (drawn / "book" / "preface.md").open("a") as page:
        page.write("\n```{scaling-plot}\n```\n")
    (drawn / "cudasim" / "src" / "cudasim" / "timing" / "links.json").write_text("{}")
    log = refused_build(drawn, capfd)
    assert_one_line(log, "error: cudasim/src: ", "fails: ", "'inside'")


# The table of recordings.


@pytest.fixture
def book_of_one(small_book):
    """The root of a book of one chapter, which may be recorded on a GPU."""
    copy_kernel(small_book, "gpu")
    (small_book / "notebooks" / "second.ipynb").unlink()
    toc = (small_book / "_toc.yml").read_text()
    listed = "  - file: notebooks/second\n"
    (small_book / "_toc.yml").write_text(toc.replace(listed, ""))
    zen = code("zen", "import this", ["nbval-ignore-output"])
    write(small_book, "first", prose("title", "# One"), code("answer", "6 * 7"), zen)
    keep(small_book, "first", "cpu", {"answer": [text("42")]})
    return small_book


def test_the_status_lists_what_was_executed_and_compared(book_of_one):
    *_, row, _, note = status.chapters_table(Book(book_of_one))
    assert row == (
        "| [](../notebooks/first.ipynb) | No GPU | 2026-01-31 | 1.2 | 1 | none | "
        "a processor | measured | 3.11.0 | PyTorch 2.0 |"
    )
    assert note.startswith("No real GPU is recorded yet")


def test_the_status_names_cells_that_wait_for_a_card(book_of_one):
    keep(book_of_one, "first", "h100", {}, **H100)
    edit(book_of_one, "first", "zen", "import that")
    keep(book_of_one, "first", "cpu", {})
    *_, cpu, card = status.chapters_table(Book(book_of_one))
    assert "| No GPU | 2026-01-31 | 1.2 | 1 | none |" in cpu
    assert "| NVIDIA H100 | 2026-01-31 | 1.2 | 1 | zen |" in card
