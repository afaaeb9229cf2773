"""Recordings are stale when what made them changed, and only then; edited ones are refused."""

import re
import shutil

import pytest
from helpers import (
    ROOT,
    code,
    copy_code,
    copy_kernel,
    edit,
    notebook,
    outputs_path,
    refused,
    write,
)
from making import H100, RECORDED, changed, keep, specification

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.record.provenance import chapter_pins


def reasons(root, folder="cpu"):
    """Return why each recording in a folder is stale, or None, by the chapter's name."""
    book = Book(root)
    reasons = {}
    for recording in book.recordings:
        if recording.folder == folder:
            reasons[recording.chapter.name] = recording.stale_because(book.pins)
    return reasons


FRESH = {"first": None, "second": None}
SUM = code("sum", "2 + 2")
CHANGES = [[code("sum", "2 + 3")], [code("total", "2 + 2")], [code("one", "1"), SUM]]


@pytest.mark.parametrize("cells", CHANGES)
def test_changed_cells_make_only_their_chapter_stale(recorded_book, cells):
    write(recorded_book, "second", *cells)
    reason = f"changed from the cell '{cells[0].id}' on"
    assert reasons(recorded_book) == FRESH | {"second": reason}


def pin(root, package, version):
    """Pin a package to another version, and return the one that it had."""
    for path in root.glob("requirements*.txt"):
        text = path.read_text()
        line = re.search(rf"^{package}==(\S+).*\n", text, re.M)
        if line:
            path.write_text(text.replace(line[0], f"{package}=={version}\n"))
            return line[1]
    raise LookupError(package)


def test_what_no_output_depends_on_makes_nothing_stale(recorded_book):
    edit(recorded_book, "first", "title", "# Another title")
    edit(recorded_book, "first", "setup", "import os")
    metadata = {"runner": {"name": "O"}}
    copy_kernel(recorded_book, "cpu", display_name="Another", metadata=metadata)
    # These chapters import none of them.
    for package in ("ruff", "sphinx", "torch"):
        pin(recorded_book, package, "0.1")
    assert reasons(recorded_book) == FRESH


def test_a_pin_of_the_kernel_makes_all_chapters_stale(recorded_book):
    # ipykernel needs it.
    before = pin(recorded_book, "pyzmq", "0.1")
    reason = f"pyzmq is pinned to 0.1, it was {before}"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


@pytest.mark.parametrize(
    ("source", "packages"),
    [("1", {"ipykernel"}), ("import torch.nn", {"ipykernel", "torch", "sympy"})],
)
def test_a_chapter_runs_on_what_its_imports_need(source, packages):
    chapter = Chapter("one", notebook(code("a", source)))
    pins = chapter_pins(chapter, Book(ROOT).pins)
    candidates = {"ruff", "sphinx", "torch", "sympy", "ipykernel"}
    assert pins.keys() & candidates == packages


@pytest.fixture
def simulated_book(recorded_book):
    """That book with simulated GPUs; of `cpu`, only the second chapter asks for them."""
    copy_kernel(recorded_book, "simulated")
    copy_code(recorded_book, "cudasim/src")
    edit(recorded_book, "second", "sum", "import cudasim\n2 + 2")
    edit(recorded_book, "first", "setup", "import cudasim")
    keep(recorded_book, "first", "simulated", {})
    keep(recorded_book, "first", "cpu", {})
    keep(recorded_book, "second", "cpu", {})
    return recorded_book


SIMULATED_CHANGED = {"first": "the runner simulated changed"}


def test_another_machine_makes_only_its_outputs_stale(simulated_book):
    argv = specification("simulated")["argv"]
    argv[argv.index("2")] = "3"
    copy_kernel(simulated_book, "simulated", argv=argv)
    assert reasons(simulated_book, "simulated") == SIMULATED_CHANGED
    assert reasons(simulated_book) == FRESH
    copy_kernel(simulated_book, "simulated")
    assert reasons(simulated_book, "simulated") == {"first": None}


def test_another_simulation_makes_what_uses_it_stale(simulated_book):
    simulator = simulated_book / "cudasim" / "src" / "cudasim"
    # No program sees a file.
    (simulator / "new.py").touch()
    assert reasons(simulated_book, "simulated") == {"first": None}

    behaviour = simulator / "behaviour.py"
    behaviour.write_text("BEHAVIOUR = 99\n")
    assert reasons(simulated_book, "simulated") == SIMULATED_CHANGED
    assert reasons(simulated_book) == FRESH | {"second": "the runner cpu changed"}

    behaviour.write_text("")
    with refused("cudasim/src/cudasim/behaviour.py: ", "restore it"):
        reasons(simulated_book)


def test_the_script_that_starts_kernels_counts(recorded_book):
    (recorded_book / "kernels" / "start.py").write_text("# changed\n")
    reason = "the runner cpu changed"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


def test_only_its_code_makes_a_recording_of_a_card_stale(recorded_book):
    copy_kernel(recorded_book, "gpu")
    keep(recorded_book, "first", "h100", {}, **H100)
    pin(recorded_book, "ipykernel", "0.1")
    copy_kernel(recorded_book, "gpu", env={})
    assert reasons(recorded_book, "h100") == {"first": None}
    edit(recorded_book, "first", "make", "x = 2")
    reason = "changed from the cell 'make' on"
    assert reasons(recorded_book, "h100") == {"first": reason}


# What was not recorded, or not so, is refused.


def assert_refused(root, *parts):
    with refused(*parts):
        Book(root).recordings  # noqa: B018


def test_facts_that_were_typed_are_refused(recorded_book):
    with changed(outputs_path("first", "cpu", recorded_book)) as recording:
        recording.metadata.provenance.hardware = "Abacus"
    reason = "outputs/cpu/first.ipynb: edited since it was recorded"
    assert_refused(recorded_book, reason)


CONFLICT = "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> branch\n"
DAMAGES = [
    ("{", "not valid JSON"),
    ("{}", "not a notebook of format 4.5"),
    (CONFLICT, "conflict markers of git from line 1 on"),
]


@pytest.mark.parametrize(("text", "reason"), DAMAGES)
def test_damaged_outputs_are_not_called_edited(recorded_book, text, reason):
    path = outputs_path("first", "cpu", recorded_book)
    path.write_text(text)
    assert_refused(recorded_book, f"outputs/cpu/first.ipynb: {reason}")


def test_outputs_without_provenance_are_refused(recorded_book):
    with changed(outputs_path("first", "cpu", recorded_book)) as recording:
        del recording.metadata["provenance"]
    reason = "outputs/cpu/first.ipynb: edited since it was recorded"
    assert_refused(recorded_book, reason)


def test_edited_outputs_of_a_card_are_refused(recorded_book):
    copy_kernel(recorded_book, "gpu")
    with changed(keep(recorded_book, "first", "h100", {}, **H100)) as recording:
        recording.metadata.provenance.hardware = "Abacus"
    again = "take it out of outputs/ or, where such a card is, record it again: 'make record"
    assert_refused(recorded_book, "outputs/h100/first.ipynb: ", again, "PYTHON=python3")


def test_outputs_of_no_chapter_are_refused(recorded_book):
    second = outputs_path("second", "cpu", recorded_book)
    second.rename(second.with_name("old.ipynb"))
    assert_refused(recorded_book, "outputs/cpu/old.ipynb: no chapter", "git mv")


def test_outputs_of_another_chapter_are_refused(recorded_book):
    first = outputs_path("first", "cpu", recorded_book)
    second = outputs_path("second", "cpu", recorded_book)
    shutil.copy(first, second)
    reason = "outputs/cpu/second.ipynb: recorded of the chapter 'first'"
    assert_refused(recorded_book, reason)


def test_outputs_of_a_renamed_runner_are_refused(recorded_book):
    (recorded_book / "kernels" / "cpu").rename(recorded_book / "kernels" / "host")
    parts = ("on the runner 'cpu'", "restore that runner in kernels/", "remove it")
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: ", *parts)


def test_this_books_recordings_are_complete():
    book = Book(ROOT)
    for runner in book.portable_runners:
        for chapter in book.chapters_of(runner):
            assert (runner.name, chapter.name) in RECORDED


def test_this_books_recordings_are_current():
    book = Book(ROOT)
    for folder, name in RECORDED:
        recording = book.recording(folder, name)
        facts = recording.provenance
        required = {"date", "hardware", "versions", "seconds"}
        assert required <= facts.keys(), recording.where
        if recording.runner.is_real_gpu:
            assert facts.card and facts.driver and facts.cuda, recording.where
        else:
            pins = book.pins_of(recording.runner)
            assert recording.stale_because(pins) is None, recording.where
        # In a fresh clone there is nothing to write.
        assert recording.synced() == recording
