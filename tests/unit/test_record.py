"""What `make book` and `make record` execute, what they leave alone, and what they write."""

import nbformat
import pytest
from helpers import (
    assert_one_line,
    cell,
    copy_kernel,
    edit,
    outputs_path,
    read,
    run_tool,
)
from making import CARD, changed, contents, falsify, specification, text
from nbformat.v4 import new_code_cell

from tools.book.book import Book
from tools.record.record import sync
from tools.site.status import chapters_table

ASK_PLACE = "import os\nx = os.environ.get('PLACE', 'here')"


def test_make_book_executes_what_is_stale(recorded_book):
    env = specification("cpu")["env"] | {"PLACE": "elsewhere"}
    copy_kernel(recorded_book, "cpu", "other", env=env)
    # `make book` never records on a GPU.
    copy_kernel(recorded_book, "cpu", "gpu")
    # Jupyter may leave such a file.
    (recorded_book / "notebooks" / "third.ipynb").write_text("{")
    edit(recorded_book, "first", "make", ASK_PLACE)
    edit(recorded_book, "first", "show", "x")
    second = outputs_path("second", "cpu", recorded_book)
    before = contents(second.parent)[second]

    run = run_tool(recorded_book, "book")
    assert run.returncode == 0, run.stderr
    add = "add 'file: notebooks/third' to _toc.yml, or remove it"
    assert run.stdout.splitlines() == [
        f"note: notebooks/third.ipynb: no chapter; {add}",
        "cpu: first: changed from the cell 'make' on",
        "other: first: never executed",
        "other: second: never executed",
        f"site: {recorded_book / '_build' / 'html' / 'index.html'}",
    ]
    folders = sorted(path.name for path in (recorded_book / "outputs").iterdir())
    assert folders == ["cpu", "other"]
    for runner, printed in (("cpu", "'here'"), ("other", "'elsewhere'")):
        [output] = read(outputs_path("first", runner, recorded_book)).cells[-1].outputs
        assert output.data["text/plain"] == printed
    assert contents(second.parent)[second] == before


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["cpu", "--chapters", "third"], ["notebooks/third.ipynb: ", "first"]),
        (["toaster"], ["kernels/: no runner 'toaster'", "cpu"]),
        ([], ["Makefile: ", "RUNNER=cpu"]),
    ],
)
def test_unknown_names_are_one_line(small_book, arguments, parts):
    run = run_tool(small_book, "record", *arguments)
    assert run.returncode == 1
    assert_one_line(run.stderr, "error: ", *parts)


def test_what_no_key_covers_is_carried_over(recorded_book):
    before = Book(recorded_book).recording("cpu", "first").notebook
    with changed(recorded_book / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "setup").source = "import os"
        cell(chapter, "make").metadata.tags = ["hide-input"]
    assert sync(Book(recorded_book)) == ["outputs/cpu/first.ipynb"]
    after = Book(recorded_book).recording("cpu", "first").notebook
    assert cell(after, "setup").source == "import os"
    assert cell(after, "make").metadata.tags == ["hide-input"]
    for new, old in zip(after.cells, before.cells, strict=True):
        assert new.outputs == old.outputs
    assert after.metadata.provenance == before.metadata.provenance
    # Stale outputs stay what they were.
    edit(recorded_book, "first", "make", "x = 2")
    assert sync(Book(recorded_book)) == []


# Recording on GPUs: simulated ones stand in for real.


def test_a_recording_says_on_which_card_it_was_made(recorded_on_gpus):
    book = Book(recorded_on_gpus)
    folders = [recording.folder for recording in book.recordings]
    assert folders == ["cpu", "cpu", CARD, CARD]
    for name in ("first", "second"):
        facts = book.recording(CARD, name).provenance
        assert facts.runner == "gpu"
        assert facts.card == "2 x Simulated GPU (T4)"
        assert facts.hardware == "Simulated GPU (T4), Simulated GPU (T4)"
        assert facts.driver == "580.65.06"
        assert facts.host
        assert "cuda" in facts
    first, second = [row for row in chapters_table(book) if "Simulated GPU (T4)" in row]
    assert "first" in first
    for row in (first, second):
        assert "2 x Simulated GPU (T4)" in row
        assert "driver 580.65.06" in row
        assert "| none |" in row


@pytest.mark.full
def test_a_card_is_recorded_again_only_where_named(gpu_book):
    before = contents(gpu_book / "outputs")
    run = run_tool(gpu_book, "record", RUNNER="gpu")
    assert run.returncode == 0, run.stderr
    assert contents(gpu_book / "outputs") == before
    for name, line in zip(("first", "second"), run.stdout.splitlines(), strict=True):
        place = f"outputs/{CARD}/{name}.ipynb: recorded on "
        assert_one_line(line, place, "left as it is", "CHAPTER=")

    second = outputs_path("second", CARD, gpu_book)
    falsify(second, "sum", [text("false\n")])
    before = contents(gpu_book / "outputs")
    run = run_tool(gpu_book, "record", RUNNER="gpu", CHAPTERS="second")
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    after = contents(gpu_book / "outputs")
    changed = [path for path in before if before[path] != after[path]]
    assert changed == [second]
    assert b"false" not in second.read_bytes()


def changed_fields(before, after):
    """Return the names in the lines of JSON in which two files of one length differ."""
    names = []
    old_lines, new_lines = before.splitlines(), after.splitlines()
    for old, new in zip(old_lines, new_lines, strict=True):
        if old != new:
            names.append(new.split(b'"')[1])
    return names


# It prints an address and a time, which differ between any two runs.
UNSTEADY = "import time\nprint(object(), f'\u2248 {time.time()} s')"


def test_a_run_that_prints_the_same_rewrites_nothing(small_book):
    edit(small_book, "first", "show", UNSTEADY)
    assert run_tool(small_book, "record", "cpu").returncode == 0
    outputs = small_book / "outputs" / "cpu"
    first = outputs_path("first", "cpu", small_book)
    recorded = contents(outputs)
    assert run_tool(small_book, "record", "cpu").returncode == 0
    assert contents(outputs) == recorded

    start = small_book / "kernels" / "start.py"
    start.write_text(start.read_text() + "# Nothing that a chapter sees.\n")
    assert run_tool(small_book, "book").returncode == 0
    before, _ = recorded[first]
    assert changed_fields(before, first.read_bytes()) == [b"digest", b"kernel"]
    book = Book(small_book)
    assert book.recording("cpu", "first").stale_because(book.pins) is None

    # A chapter that has gained a cell has no old recording of it.
    path = small_book / "notebooks" / "first.ipynb"
    chapter = read(path)
    chapter.cells.append(new_code_cell("'news'", id="news"))
    nbformat.write(chapter, path)
    assert run_tool(small_book, "record", "cpu").returncode == 0
    assert b"news" in first.read_bytes()


def test_when_the_pieces_of_a_line_arrive_does_not_matter(small_book):
    pause = small_book / "pause"
    halves = f"print('a', end=''); time.sleep({str(pause)!r} in paths())"
    lines = (
        "import glob, time",
        f"paths = lambda: glob.glob({str(small_book / '*')!r})",
        f"{halves}; print('b')",
    )
    edit(small_book, "first", "show", "\n".join(lines))
    assert run_tool(small_book, "record", "cpu").returncode == 0
    recorded = contents(small_book / "outputs" / "cpu")
    pause.touch()
    assert run_tool(small_book, "record", "cpu").returncode == 0
    assert contents(small_book / "outputs" / "cpu") == recorded
