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
from tools.record.provenance import pins_of


def reasons(root, folder="cpu"):
    book = Book(root)
    found = book.recordings[folder].items()
    return {name: recording.stale_because(book.pins) for name, recording in found}


FRESH = {"first": None, "second": None}


SUM = code("sum", "2 + 2")
CHANGES = [[code("sum", "2 + 3")], [code("total", "2 + 2")], [code("one", "1"), SUM]]


@pytest.mark.parametrize("cells, id", [(cells, cells[0].id) for cells in CHANGES])
def test_changed_cells_make_their_chapter_stale_and_no_other(recorded_book, cells, id):
    write(recorded_book, "second", *cells)
    assert reasons(recorded_book) == FRESH | {
        "second": f"changed from the cell '{id}' on"
    }


def pin(root, package, version):
    """Pin a package to another version, or to none; returns the version that it had."""
    for path in root.glob("requirements*.txt"):
        text = path.read_text()
        if line := re.search(rf"^{package}==(\S+).*\n", text, re.M):
            path.write_text(
                text.replace(line[0], f"{package}=={version}\n" if version else "")
            )
            return line[1]
    raise LookupError(package)


def test_what_no_output_depends_on_makes_nothing_stale(recorded_book):
    edit(recorded_book, "first", "title", "# Another title")
    edit(recorded_book, "first", "setup", "import os")
    copy_kernel(
        recorded_book, "cpu", display_name="Another", metadata={"runner": {"name": "O"}}
    )
    for package in ("ruff", "sphinx", "torch"):  # these chapters import none
        pin(recorded_book, package, "0.1")
    assert reasons(recorded_book) == FRESH


def test_a_pin_that_executes_every_cell_makes_all_chapters_stale(recorded_book):
    before = pin(recorded_book, "pyzmq", "0.1")  # it is for ipykernel
    reason = f"pyzmq is pinned to 0.1, it was {before}"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


def test_a_chapter_runs_on_what_it_imports_and_on_what_that_needs():
    pins = Book(ROOT).pins

    def packages(source):
        made = pins_of(Chapter("one", notebook(code("a", source))), pins)
        return made.keys() & {"ruff", "sphinx", "torch", "sympy", "ipykernel"}

    assert packages("1") == {"ipykernel"}
    assert packages("import torch.nn") == {
        "ipykernel",
        "torch",
        "sympy",
    }  # sympy: for torch


def test_another_machine_or_simulation_makes_its_outputs_stale_and_no_others(
    recorded_book,
):
    copy_kernel(recorded_book, "simulated")
    copy_code(recorded_book, "cudasim/src")
    edit(recorded_book, "second", "sum", "import cudasim\n2 + 2")
    edit(recorded_book, "first", "setup", "import cudasim")
    for name, runner in (("first", "simulated"), ("first", "cpu"), ("second", "cpu")):
        keep(recorded_book, name, runner, {})
    argv = ["3" if word == "2" else word for word in specification("simulated")["argv"]]
    copy_kernel(recorded_book, "simulated", argv=argv)
    assert reasons(recorded_book, "simulated") == {
        "first": "the runner simulated changed"
    }
    assert reasons(recorded_book) == FRESH
    copy_kernel(recorded_book, "simulated")
    assert reasons(recorded_book, "simulated") == {"first": None}
    simulator = recorded_book / "cudasim" / "src" / "cudasim"
    (simulator / "new.py").touch()  # no program sees a file
    assert reasons(recorded_book, "simulated") == {"first": None}
    behaviour = simulator / "behaviour.py"
    behaviour.write_text("BEHAVIOUR = 99\n")
    assert reasons(recorded_book, "simulated") == {
        "first": "the runner simulated changed"
    }
    assert reasons(recorded_book) == FRESH | {"second": "the runner cpu changed"}
    behaviour.write_text("")
    with refused("cudasim/src/cudasim/behaviour.py: ", "restore it"):
        reasons(recorded_book)
    behaviour.write_text("BEHAVIOUR = 99\n")
    (recorded_book / "kernels" / "start.py").write_text("# changed\n")
    assert (
        reasons(recorded_book)["first"] == "the runner cpu changed"
    )  # it starts all of them


def test_outputs_of_a_card_are_stale_for_their_code_alone(recorded_book):
    copy_kernel(recorded_book, "gpu")
    keep(recorded_book, "first", "h100", {}, **H100)
    pin(recorded_book, "ipykernel", "0.1")
    copy_kernel(recorded_book, "gpu", env={})
    assert reasons(recorded_book, "h100") == {"first": None}
    edit(recorded_book, "first", "make", "x = 2")
    assert reasons(recorded_book, "h100") == {
        "first": "changed from the cell 'make' on"
    }


# What was not recorded, or not so, is refused.


def assert_refused(root, *parts):
    with refused(*parts):
        Book(root).recordings  # noqa: B018


def test_facts_that_were_typed_are_refused(recorded_book):
    with changed(outputs_path("first", "cpu", recorded_book)) as recording:
        recording.metadata.provenance.hardware = "Abacus"
    assert_refused(
        recorded_book, "outputs/cpu/first.ipynb: edited since it was recorded"
    )


def test_damaged_outputs_of_a_card_are_refused_in_one_line(recorded_book):
    copy_kernel(recorded_book, "gpu")
    keep(recorded_book, "first", "h100", {}, **H100).write_text("{")
    again = "take it out of outputs/ or, where such a card is, record it again: 'make record"
    assert_refused(recorded_book, "outputs/h100/first.ipynb: ", again, "PYTHON=python3")


def test_outputs_of_another_chapter_none_or_a_renamed_runner_are_refused(recorded_book):
    folder = recorded_book / "outputs" / "cpu"
    first, second, old = (
        folder / f"{name}.ipynb" for name in ("first", "second", "old")
    )
    second.rename(old)
    assert_refused(recorded_book, "outputs/cpu/old.ipynb: no chapter", "git mv")
    old.unlink()
    shutil.copy(first, second)
    assert_refused(
        recorded_book, "outputs/cpu/second.ipynb: recorded of the chapter 'first'"
    )
    (recorded_book / "kernels" / "cpu").rename(recorded_book / "kernels" / "host")
    parts = ("on the runner 'cpu'", "restore that runner in kernels/", "remove it")
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: ", *parts)


def test_this_books_recordings_are_complete_and_current_and_say_where_they_were_made():
    book = Book(ROOT)
    found = {
        (folder, name) for folder in book.recordings for name in book.recordings[folder]
    }
    assert found == set(RECORDED)
    for runner in book.local_runners:
        assert {
            (runner.name, chapter.name) for chapter in book.chapters_of(runner)
        } <= found
    for folder, name in RECORDED:
        recording = book.recording(folder, name)
        facts = recording.provenance
        assert {"date", "hardware", "versions", "seconds"} <= facts.keys(), (
            recording.where
        )
        if recording.runner.is_local:
            pins = book.pins_of(recording.runner)
            assert recording.stale_because(pins) is None, recording.where
        else:
            assert facts.card and facts.driver and facts.cuda, recording.where
        assert recording.synced() == recording  # nothing to write in a fresh clone
