"""How the site is built: all or nothing, and again when an input has changed."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT, assert_one_line, code, copy_kernel, edit, prose, write
from making import H100, draw_by, keep, text

from tools.book.book import Book
from tools.errors import BookError
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


@pytest.mark.parametrize(
    "fault", ["sys.exit(1)", "1 / 0", "import os; os.kill(os.getpid(), 9)"]
)
def test_a_build_that_fails_leaves_the_last_good_site(built, fault):
    draw_by(built, fault)
    with pytest.raises(
        BookError, match="the site was not built; see what is said above"
    ):
        build_site(built)
    assert page_of(built) == "old" and not is_current(built)
    assert leftovers(built) == ["html", "inputs.json"]


def test_a_build_that_is_stopped_leaves_the_last_good_site_and_no_process(
    built, monkeypatch
):
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
    assert page_of(built) == "old" and leftovers(built) == ["html", "inputs.json"]


def test_a_site_that_is_whole_takes_the_place_of_the_last_one(built, monkeypatch):
    half = built / "_build" / "work" / "_build" / "html"
    half.mkdir(parents=True)
    (half / "half.html").write_text("half")  # of a build that was killed
    site = build_site(built)
    assert page_of(built) == "new" and leftovers(built) == ["html", "inputs.json"]
    assert [*site.iterdir()] == [site / "index.html"]

    def fail(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(BookError, match=rf"^{SITE}: cannot be written"):
        build_site(built)


def test_a_site_is_current_until_an_input_changes(small_book):
    assert not is_current(small_book)
    build_site(small_book)
    (small_book / "_toc.yml").touch()  # a date is no change
    assert is_current(small_book)
    (small_book / SITE).rename(small_book / "away")
    assert not is_current(small_book)
    draw_by(small_book, 'Path("book", "preface.md").write_text("# Changed")')
    build_site(small_book)
    assert not is_current(small_book)  # it changed while the site was drawn


def test_every_folder_and_file_that_a_site_or_a_recording_is_made_from_counts(tmp_path):
    made_from = (
        "tools cudasim/src kernels notebooks outputs img book _toc.yml _config.yml"
    )
    assert {*made_from.split(), "requirements.txt", "requirements-no-deps.txt"} < {
        *INPUTS
    }
    for name in INPUTS:
        assert (ROOT / name).exists()
        folder = (ROOT / name).is_dir()
        path = tmp_path / name / "below" / "file.md" if folder else tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = input_digests(tmp_path)
        path.write_text("before")
        after = input_digests(tmp_path)
        path.write_text("after")
        assert before != after != input_digests(tmp_path), name


# Faults that Sphinx finds, in a book that it has drawn once.


@pytest.fixture
def drawn(tiny_book, tmp_path):
    return shutil.copytree(tiny_book, tmp_path / "book")


def refused_build(root, capfd):
    with pytest.raises(BookError, match="the site was not built"):
        build_site(root)
    assert leftovers(root) == ["html", "inputs.json"]
    return capfd.readouterr().err


WARNINGS = {  # what is on a page, and what is said of it
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


def test_every_warning_is_said_and_fails_the_build(drawn, capfd):
    (drawn / "book" / "torn.png").write_bytes(b"no image")
    size = 'xmlns="http://www.w3.org/2000/svg" width="9" height="9"'
    styled = f"<svg {size}><style>* {{}}</style><text>A</text></svg>"
    (drawn / "book" / "styled.svg").write_text(styled)
    with (drawn / "book" / "preface.md").open("a") as page:
        page.write("".join(f"\n{fault}\n" for fault in WARNINGS))
    said = re.sub(r"\x1b\[\d*m", "", refused_build(drawn, capfd))
    for words in WARNINGS.values():
        assert re.search(f"preface.md.*WARNING.*{re.escape(words)}", said), (
            words,
            said,
        )


def test_a_broken_file_of_cudasim_fails_the_build_in_one_line(drawn, capfd):
    with (drawn / "book" / "preface.md").open("a") as page:
        page.write("\n```{scaling-plot}\n```\n")
    (drawn / "cudasim" / "src" / "cudasim" / "timing" / "links.json").write_text("{}")
    assert_one_line(
        refused_build(drawn, capfd), "error: cudasim/src: ", "fails: ", "'inside'"
    )


# The table of recordings.


def test_the_status_lists_what_was_executed_and_compared(small_book):
    root = small_book
    copy_kernel(root, "gpu")
    (root / "notebooks" / "second.ipynb").unlink()
    toc = (root / "_toc.yml").read_text()
    (root / "_toc.yml").write_text(toc.replace("  - file: notebooks/second\n", ""))
    zen = code("zen", "import this", ["nbval-ignore-output"])
    write(root, "first", prose("title", "# One"), code("answer", "6 * 7"), zen)
    keep(root, "first", "cpu", {"answer": [text("42")]})
    *_, row, _, note = status.chapters_table(Book(root))
    assert row == (
        "| [](../notebooks/first.ipynb) | No GPU | 2026-01-31 | 1.2 | 1 | none | "
        "a processor | measured | 3.11.0 | PyTorch 2.0 |"
    )
    assert note.startswith("No real GPU is recorded yet")
    keep(root, "first", "h100", {}, **H100)
    edit(root, "first", "zen", "import that")  # a cell that now waits for the card
    keep(root, "first", "cpu", {})
    *_, cpu, card = status.chapters_table(Book(root))
    assert "| No GPU | 2026-01-31 | 1.2 | 1 | none |" in cpu
    assert "| NVIDIA H100 | 2026-01-31 | 1.2 | 1 | zen |" in card
