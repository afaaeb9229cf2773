"""Recordings are stale when what made them changed, and only then; edited ones are refused."""

import re

import nbformat
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
        ("second", [code("a", "1")], "a"),
        ("second", [code("sum", "2 + 2"), code("more", "3")], "more"),
        ("second", [code("total", "2 + 2")], "total"),
        ("second", [code("one", "1"), code("sum", "2 + 2")], "one"),
    ],
)
def test_changed_cells_make_their_chapter_stale_and_no_other(recorded_book, name, cells, id):
    write(recorded_book, name, *cells)
    assert reasons(recorded_book) == FRESH | {name: f"changed from the cell '{id}' on"}


def test_prose_and_setup_make_nothing_stale(recorded_book):
    edit(recorded_book, "first", "title", "# Another title")
    edit(recorded_book, "first", "setup", "import os")
    assert reasons(recorded_book) == FRESH


def test_date_and_hardware_make_nothing_stale(small_book):
    keep(small_book, "first", "cpu", {}, date="1999-01-01", hardware="abacus", python="2.7")
    assert reasons(small_book) == {"first": None}


# Pins.


def pin(root, package, version):
    """Pin a package to another version, or to none; returns the version that it had."""
    for path in root.glob("requirements*.txt"):
        text = path.read_text()
        if line := re.search(rf"^{package}==(\S+).*\n", text, re.M):
            path.write_text(text.replace(line[0], f"{package}=={version}\n" if version else ""))
            return line[1]
    raise LookupError(package)


@pytest.mark.parametrize(
    ("package", "version"),
    [("ipykernel", "0.1"), ("nbclient", "0.1"), ("pyzmq", "0.1"), ("ipykernel", None)],
)  # pyzmq: for ipykernel
def test_a_pin_that_executes_every_cell_makes_all_chapters_stale(recorded_book, package, version):
    before = pin(recorded_book, package, version)
    reason = f"{package} is pinned to {version or 'no version'}, it was {before}"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


@pytest.mark.parametrize("package", ["ruff", "sphinx", "torch"])
def test_a_pin_that_a_chapter_does_not_see_makes_nothing_stale(recorded_book, package):
    pin(recorded_book, package, "0.1")
    assert reasons(recorded_book) == FRESH


def test_a_chapter_runs_on_what_it_imports_and_on_what_that_needs():
    pins = Book(ROOT).pins
    assert {"ruff", "sphinx", "torch", "d2l", "sympy"} <= pins.keys()

    def packages(source):
        made = pins_of(Chapter("one", notebook(code("a", source))), pins)
        assert all(pins[name] == version for name, version in made.items())
        return made.keys() & {"ruff", "sphinx", "torch", "d2l", "sympy", "ipykernel"}

    assert packages("1") == {"ipykernel"}
    assert packages("import torch.nn") == {"ipykernel", "torch", "sympy"}  # sympy: for torch
    assert packages("from d2l import torch") == {"ipykernel", "torch", "sympy", "d2l"}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-no-deps.txt"])
def test_comment_on_a_pin_makes_nothing_stale(recorded_book, file):
    path = recorded_book / file
    path.write_text("# Pins\n" + path.read_text().replace("#", "# still:"))
    assert reasons(recorded_book) == FRESH


# What a runner is.


def add_a_gpu(root):
    argv = ["3" if word == "2" else word for word in specification("simulated")["argv"]]
    copy_kernel(root, "simulated", argv=argv)


def add_to_the_simulator(root):
    (root / "cudasim" / "src" / "cudasim" / "new.py").write_text("")


@pytest.mark.parametrize("change", [add_a_gpu, add_to_the_simulator])
def test_another_simulation_makes_its_outputs_stale_and_no_others(recorded_book, change):
    copy_kernel(recorded_book, "simulated")
    copy_code(recorded_book, "cudasim/src")
    keep(recorded_book, "first", "simulated", {})
    assert reasons(recorded_book, "simulated") == {"first": None}
    change(recorded_book)
    assert reasons(recorded_book, "simulated") == {"first": "the runner simulated changed"}
    assert reasons(recorded_book) == FRESH


def test_another_simulator_makes_the_outputs_of_a_chapter_that_names_it_stale(recorded_book):
    copy_code(recorded_book, "cudasim/src")
    edit(recorded_book, "second", "sum", "import cudasim\n2 + 2")
    edit(recorded_book, "first", "setup", "import cudasim")
    for name in FRESH:
        keep(recorded_book, name, "cpu", {})
    assert reasons(recorded_book) == FRESH
    add_to_the_simulator(recorded_book)
    assert reasons(recorded_book) == FRESH | {"second": "the runner cpu changed"}


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED"])
def test_a_variable_taken_out_of_a_runner_makes_its_outputs_stale(recorded_book, variable):
    env = specification("cpu")["env"]
    env.pop(variable)
    copy_kernel(recorded_book, "cpu", env=env)
    assert set(reasons(recorded_book).values()) == {"the runner cpu changed"}


def test_another_start_of_the_kernels_makes_outputs_stale(recorded_book):
    (recorded_book / "kernels" / "start.py").write_text("# changed\n")
    assert set(reasons(recorded_book).values()) == {"the runner cpu changed"}


def test_what_readers_are_told_of_a_runner_makes_nothing_stale(recorded_book):
    about = {"runner": {"name": "Other"}}
    copy_kernel(recorded_book, "cpu", display_name="Another", metadata=about)
    assert reasons(recorded_book) == FRESH


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


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_damaged_outputs_are_refused_in_one_line(recorded_book, content):
    outputs_path("first", "cpu", recorded_book).write_text(content)
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: ")


@pytest.mark.parametrize(("folder", "runner"), [("cpu", "cpu"), ("old", "gpu")])
def test_outputs_without_provenance_are_refused_in_one_line(recorded_book, folder, runner):
    path = outputs_path("first", folder, recorded_book)
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook(code("a", "1")), path)
    again = f"make record RUNNER={runner} CHAPTERS=first"
    assert_refused(recorded_book, f"outputs/{folder}/first.ipynb: no provenance", again)


EDITED = "edited since it was recorded"
FAULTS = {  # what is done to a recording of the chapter `first`, and why that is refused
    "other chapter": (
        lambda made: made.metadata.provenance.update(chapter="second"),
        "outputs of the chapter 'second'",
    ),
    "no count": (
        lambda made: made.cells[1].update(execution_count=None),
        "the cell 'make' was not executed",
    ),
    "other output": (lambda made: made.cells[2].outputs[0].update(text="x is 7\n"), EDITED),
    "no output": (lambda made: made.cells[2].outputs.pop(), EDITED),
    "other key": (
        lambda made: made.cells[2].metadata.update(key=made.cells[1].metadata.key),
        EDITED,
    ),
    "no cell": (lambda made: made.cells.pop(), EDITED),
    "hardware": (lambda made: made.metadata.provenance.update(hardware="Abacus"), EDITED),
    "version": (lambda made: made.metadata.provenance.versions.update(torch="9.0"), EDITED),
    "no seconds": (lambda made: made.metadata.provenance.pop("seconds"), EDITED),
}


@pytest.mark.parametrize(("fault", "why"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("folder", ["cpu", CARD])
def test_outputs_that_are_not_as_recorded_are_refused_in_one_line(gpu_book, folder, fault, why):
    with changed(outputs_path("first", folder, gpu_book)) as outputs:
        fault(outputs)
    again = "make record RUNNER=cpu CHAPTERS=first"
    if folder == CARD:
        again = "make record RUNNER=gpu CHAPTERS=first PYTHON=python3"
    assert_refused(gpu_book, f"outputs/{folder}/first.ipynb: {why}", again)


@pytest.mark.parametrize("folder", ["cpu", CARD])
def test_outputs_of_no_chapter_are_refused_in_one_line(gpu_book, folder):
    path = gpu_book / "outputs" / folder
    (path / "first.ipynb").rename(path / "old.ipynb")
    assert_refused(gpu_book, f"outputs/{folder}/old.ipynb: no chapter", "git mv")


def test_outputs_of_a_renamed_runner_are_refused_in_one_line(recorded_book):
    (recorded_book / "kernels" / "cpu").rename(recorded_book / "kernels" / "host")
    parts = ("recorded on the runner 'cpu'", "restore kernels/cpu/kernel.json or", "'make book'")
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: ", *parts)
    (recorded_book / "outputs" / "cpu").rename(recorded_book / "outputs" / "host")
    assert_refused(recorded_book, "outputs/host/first.ipynb: ", *parts)


@pytest.mark.parametrize(
    ("folder", "runner", "home"), [("cpu", "gpu", "the name of its card"), (CARD, "cpu", "cpu")]
)
def test_outputs_under_the_name_of_another_runner_are_refused(gpu_book, folder, runner, home):
    outputs = gpu_book / "outputs"
    (outputs / folder).rename(gpu_book / "away")
    (outputs / (CARD if runner == "gpu" else runner)).rename(outputs / folder)
    parts = (f"recorded on the runner '{runner}'", f"outputs/ under {home}; move it there")
    assert_refused(gpu_book, f"outputs/{folder}/first.ipynb: ", *parts)


def test_outputs_of_real_gpus_that_do_not_say_which_are_refused(recorded_book):
    copy_kernel(recorded_book, "gpu")
    keep(recorded_book, "first", "h100", {}, runner="gpu")
    assert_refused(recorded_book, "outputs/h100/first.ipynb: ", "does not say on which")


def test_recordings_are_listed_in_the_order_of_the_tabs(gpu_book):
    copy_kernel(gpu_book, "simulated")
    for folder, facts in {"a100": H100, "simulated": {}}.items():
        keep(gpu_book, "second", folder, {}, **facts)
    (gpu_book / "outputs" / "empty").mkdir()
    assert list(Book(gpu_book).recordings) == ["simulated", "cpu", CARD, "a100"]


# Which of its cells a page can show.


def first_on_cpu(root):
    return Book(root).recording("cpu", "first")


def test_cells_are_found_by_id_and_one_that_is_new_waits(recorded_book):
    recording = first_on_cpu(recorded_book)
    recording.notebook.cells.reverse()
    assert (recording.cells.keys(), recording.waiting) == ({"setup", "make", "show"}, [])
    assert recording.cells["show"].outputs[0].text == "x is 1\n"
    recording = first_on_cpu(recorded_book)
    recording.notebook.cells.pop()
    assert recording.waiting == ["show"]


def test_cells_wait_from_the_changed_one_on(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    recording = first_on_cpu(recorded_book)
    assert (list(recording.cells), recording.waiting) == (["setup"], ["make", "show"])


# This book's own.


@pytest.fixture(scope="module")
def book():
    return Book(ROOT)


def test_every_recorded_notebook_is_read_and_every_local_runner_has_its_chapters(book):
    found = {(folder, name) for folder in book.recordings for name in book.recordings[folder]}
    assert found == set(RECORDED)
    for runner in book.local_runners:
        assert {(runner.name, chapter.name) for chapter in book.chapters_of(runner)} <= found


@pytest.mark.parametrize(("folder", "name"), RECORDED)
def test_recorded_outputs_are_current_and_say_where_and_when(book, folder, name):
    recording = book.recording(folder, name)
    facts = recording.provenance
    assert {"date", "hardware", "versions", "seconds"} <= facts.keys()
    if recording.runner.is_local:
        assert recording.stale_because(book.pins) is None
        assert {"torch", "ipykernel"} <= facts.pins.keys()
        assert not {"ruff", "sphinx"} & facts.pins.keys()
    else:
        assert facts.card and facts.driver and facts.cuda
    assert recording.synced() == recording  # nothing to write in a fresh clone
    assert recording.cells
