"""Recordings are stale when what made them changed, and only then; edited ones are refused."""

import re

import pytest
from helpers import (
    CARD,
    H100,
    RECORDED,
    ROOT,
    changed,
    code,
    copy_code,
    copy_kernel,
    edit,
    keep,
    notebook,
    outputs_path,
    refused,
    specification,
    write,
)

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.record.provenance import pins_of


def reasons(root, folder="cpu"):
    """Why each chapter that was recorded there is stale, by chapter; None where it is not."""
    book = Book(root)
    found = book.recordings[folder].items()
    return {name: recording.stale_because(book.pins) for name, recording in found}


SETUP = code("setup", "import sys", tags=["setup"])
FRESH = {"first": None, "second": None}


@pytest.mark.parametrize(
    ("name", "cells", "id"),
    [
        ("first", [SETUP, code("make", "x = 2")], "make"),
        ("first", [SETUP, code("make", "x = 1")], "show"),
        ("second", [code("sum", "2 + 2"), code("more", "3")], "more"),
        ("second", [code("total", "2 + 2")], "total"),
        ("second", [code("one", "1"), code("sum", "2 + 2")], "one"),
    ],
)
def test_changed_cells_make_their_chapter_stale_and_no_other(recorded_book, name, cells, id):
    write(recorded_book, name, *cells)
    assert reasons(recorded_book) == FRESH | {name: f"changed from the cell '{id}' on"}


def pin(root, package, version):
    """Pin a package to another version, or to none; returns the version that it had."""
    for path in root.glob("requirements*.txt"):
        text = path.read_text()
        if line := re.search(rf"^{package}==(\S+).*\n", text, re.M):
            path.write_text(text.replace(line[0], f"{package}=={version}\n" if version else ""))
            return line[1]
    raise LookupError(package)


def test_what_no_output_depends_on_makes_nothing_stale(recorded_book):
    edit(recorded_book, "first", "title", "# Another title")
    edit(recorded_book, "first", "setup", "import os")
    copy_kernel(recorded_book, "cpu", display_name="Another", metadata={"runner": {"name": "O"}})
    for path in recorded_book.glob("requirements*.txt"):
        path.write_text("# Pins\n" + path.read_text().replace("#", "# still:"))
    for package in ("ruff", "sphinx", "torch"):  # these chapters import none
        pin(recorded_book, package, "0.1")
    assert reasons(recorded_book) == FRESH


@pytest.mark.parametrize(
    ("package", "version"), [("nbclient", "0.1"), ("pyzmq", "0.1"), ("ipykernel", None)]
)  # pyzmq: for ipykernel
def test_a_pin_that_executes_every_cell_makes_all_chapters_stale(recorded_book, package, version):
    before = pin(recorded_book, package, version)
    reason = f"{package} is pinned to {version or 'no version'}, it was {before}"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


def test_a_chapter_runs_on_what_it_imports_and_on_what_that_needs():
    pins = Book(ROOT).pins

    def packages(source):
        made = pins_of(Chapter("one", notebook(code("a", source))), pins)
        assert all(pins[name] == version for name, version in made.items())
        return made.keys() & {"ruff", "sphinx", "torch", "d2l", "sympy", "ipykernel"}

    assert packages("1") == {"ipykernel"}
    assert packages("import torch.nn") == {"ipykernel", "torch", "sympy"}  # sympy: for torch
    assert packages("from d2l import torch") == {"ipykernel", "torch", "sympy", "d2l"}


def add_a_gpu(root):
    argv = ["3" if word == "2" else word for word in specification("simulated")["argv"]]
    copy_kernel(root, "simulated", argv=argv)


def add_to_the_simulator(root):
    (root / "cudasim" / "src" / "cudasim" / "new.py").write_text("")


@pytest.mark.parametrize("change", [add_a_gpu, add_to_the_simulator])
def test_another_simulation_makes_its_outputs_stale_and_no_others(recorded_book, change):
    copy_kernel(recorded_book, "simulated")
    copy_code(recorded_book, "cudasim/src")
    edit(recorded_book, "second", "sum", "import cudasim\n2 + 2")
    edit(recorded_book, "first", "setup", "import cudasim")
    for name, runner in (("first", "simulated"), ("first", "cpu"), ("second", "cpu")):
        keep(recorded_book, name, runner, {})
    assert reasons(recorded_book, "simulated") == {"first": None}
    assert reasons(recorded_book) == FRESH
    change(recorded_book)
    assert reasons(recorded_book, "simulated") == {"first": "the runner simulated changed"}
    names_it = {"second": "the runner cpu changed"} if change is add_to_the_simulator else {}
    assert reasons(recorded_book) == FRESH | names_it


def take_out_a_variable(root):
    env = specification("cpu")["env"]
    env.pop("CUDA_VISIBLE_DEVICES")
    copy_kernel(root, "cpu", env=env)


def start_kernels_otherwise(root):
    (root / "kernels" / "start.py").write_text("# changed\n")


@pytest.mark.parametrize("change", [take_out_a_variable, start_kernels_otherwise])
def test_another_machine_makes_outputs_stale(recorded_book, change):
    change(recorded_book)
    assert set(reasons(recorded_book).values()) == {"the runner cpu changed"}


def test_outputs_of_a_card_are_stale_for_their_code_alone(gpu_book):
    pin(gpu_book, "ipykernel", "0.1")
    add_to_the_simulator(gpu_book)
    copy_kernel(gpu_book, "simulated", "gpu", env={})
    assert reasons(gpu_book, CARD) == FRESH
    edit(gpu_book, "first", "make", "x = 2")
    assert reasons(gpu_book, CARD) == FRESH | {"first": "changed from the cell 'make' on"}


# What was not recorded, or not so, is refused.


def assert_refused(root, *parts):
    with refused(*parts):
        Book(root).recordings  # noqa: B018


FAULTS = {  # what is done to a recording of the chapter `first`
    "other output": lambda made: made.cells[2].outputs[0].update(text="x is 7\n"),
    "no count": lambda made: made.cells[1].update(execution_count=None),
    "other chapter": lambda made: made.metadata.provenance.update(chapter="second"),
    "hardware": lambda made: made.metadata.provenance.update(hardware="Abacus"),
    "no provenance": lambda made: made.metadata.pop("provenance"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_outputs_that_are_not_as_recorded_are_refused_in_one_line(recorded_book, fault):
    with changed(outputs_path("first", "cpu", recorded_book)) as outputs:
        fault(outputs)
    again = "edited since it was recorded; record it again: 'make record RUNNER=cpu CHAPTER=first'"
    assert_refused(recorded_book, f"outputs/cpu/first.ipynb: {again}")


def test_damaged_outputs_of_a_card_are_refused_in_one_line(recorded_book):
    copy_kernel(recorded_book, "gpu")
    for content in ("", "{", "[]"):
        keep(recorded_book, "first", "h100", {}, **H100).write_text(content)
        again = "take it out of outputs/ or, where such a card is, record it again: 'make record"
        assert_refused(recorded_book, "outputs/h100/first.ipynb: ", again, "PYTHON=python3")


def test_outputs_of_another_chapter_or_none_are_refused_in_one_line(recorded_book):
    folder = recorded_book / "outputs" / "cpu"
    (folder / "first.ipynb").replace(folder / "second.ipynb")
    assert_refused(recorded_book, "outputs/cpu/second.ipynb: outputs of the chapter 'first'")
    (folder / "second.ipynb").rename(folder / "old.ipynb")
    assert_refused(recorded_book, "outputs/cpu/old.ipynb: no chapter", "git mv")


def test_outputs_of_a_renamed_runner_are_refused_in_one_line(recorded_book):
    (recorded_book / "kernels" / "cpu").rename(recorded_book / "kernels" / "host")
    parts = ("recorded on the runner 'cpu'", "restore kernels/cpu/ or, if", "remove this folder")
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: ", *parts)


@pytest.mark.parametrize(
    ("folder", "runner", "home"), [("cpu", "gpu", "the name of its card"), (CARD, "cpu", "cpu")]
)
def test_outputs_under_the_name_of_another_runner_are_refused(gpu_book, folder, runner, home):
    outputs = gpu_book / "outputs"
    (outputs / folder).rename(gpu_book / "away")
    (outputs / (CARD if runner == "gpu" else runner)).rename(outputs / folder)
    parts = (f"recorded on the runner '{runner}'", f"outputs/ under {home}; move it there")
    assert_refused(gpu_book, f"outputs/{folder}/first.ipynb: ", *parts)


def test_recordings_are_listed_in_the_order_of_the_tabs(recorded_book):
    copy_kernel(recorded_book, "simulated")
    copy_kernel(recorded_book, "gpu")
    for folder, facts in {"h100": H100, "a100": H100, "simulated": {}}.items():
        keep(recorded_book, "second", folder, {}, **facts)
    assert list(Book(recorded_book).recordings) == ["simulated", "cpu", "a100", "h100"]


def test_a_page_can_show_the_cells_before_the_changed_one(recorded_book):
    recording = Book(recorded_book).recording("cpu", "first")
    recording.notebook.cells.reverse()  # they are found by id
    assert (recording.cells.keys(), recording.waiting) == ({"setup", "make", "show"}, [])
    assert recording.cells["show"].outputs[0].text == "x is 1\n"
    edit(recorded_book, "first", "make", "x = 2")
    recording = Book(recorded_book).recording("cpu", "first")
    assert (list(recording.cells), recording.waiting) == (["setup"], ["make", "show"])


def test_this_books_recordings_are_complete_and_current_and_say_where_they_were_made():
    book = Book(ROOT)
    found = {(folder, name) for folder in book.recordings for name in book.recordings[folder]}
    assert found == set(RECORDED)
    for runner in book.local_runners:
        assert {(runner.name, chapter.name) for chapter in book.chapters_of(runner)} <= found
    for folder, name in RECORDED:
        recording = book.recording(folder, name)
        facts = recording.provenance
        assert {"date", "hardware", "versions", "seconds"} <= facts.keys(), recording.where
        if recording.runner.is_local:
            assert recording.stale_because(book.pins) is None, recording.where
            assert "ipykernel" in facts.pins and not {"ruff", "sphinx"} & facts.pins.keys()
        else:
            assert facts.card and facts.driver and facts.cuda, recording.where
        assert recording.synced() == recording  # nothing to write in a fresh clone
        assert recording.cells
