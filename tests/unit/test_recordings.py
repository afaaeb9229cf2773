"""Recordings are stale when what made them changed, and only then; edited ones are refused."""

import json
import shutil

import nbformat
import pytest
from helpers import (
    CARD,
    H100,
    RECORDED,
    ROOT,
    assert_one_line,
    cell,
    code,
    copy_kernel,
    edit,
    keep,
    notebook,
    outputs_path,
    read,
    write,
)

from tools.errors import BookError
from tools.run.provenance import pins_of
from tools.source.book import Book
from tools.source.chapters import Chapter


def reasons(root, folder="cpu"):
    """Why each chapter that was recorded there is stale, by chapter; None where it is not."""
    book = Book(root)
    found = book.recordings[folder].items()
    return {name: recording.stale_because(book.pins) for name, recording in found}


FRESH = {"first": None, "second": None}


def test_fresh_outputs_are_not_stale(recorded_book):
    assert reasons(recorded_book) == FRESH


@pytest.mark.parametrize("runner", ["gpu", "simulated"])
def test_outputs_of_one_runner_are_no_other_runners(recorded_book, runner):
    copy_kernel(recorded_book, runner)
    book = Book(recorded_book)
    assert runner in book.runners and book.recording(runner, "first") is None


def test_changed_code_makes_its_chapter_stale_and_no_other(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    assert reasons(recorded_book) == FRESH | {"first": "changed from the cell 'make' on"}


@pytest.mark.parametrize(
    ("cells", "id"),
    [
        ([code("a", "1")], "a"),
        ([code("sum", "2 + 2"), code("more", "3")], "more"),
        ([code("total", "2 + 2")], "total"),
        ([code("one", "1"), code("sum", "2 + 2")], "one"),
    ],
)
def test_changed_cells_make_their_chapter_stale(recorded_book, cells, id):
    write(recorded_book, "second", *cells)
    assert reasons(recorded_book) == FRESH | {"second": f"changed from the cell '{id}' on"}


def test_a_dropped_cell_makes_its_chapter_stale(recorded_book):
    first = read(recorded_book / "notebooks" / "first.ipynb")
    write(recorded_book, "first", *first.cells[:-1])
    assert reasons(recorded_book) == FRESH | {"first": "changed from the cell 'show' on"}


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
        lines = path.read_text().splitlines(keepends=True)
        for number, line in enumerate(lines):
            if line.startswith(f"{package}=="):
                lines[number] = f"{package}=={version}\n" if version else ""
                path.write_text("".join(lines))
                return line.split()[0].partition("==")[2]
    raise LookupError(package)


@pytest.mark.parametrize("package", ["ipykernel", "nbclient", "pyzmq"])  # pyzmq: for ipykernel
def test_a_pin_that_executes_every_cell_makes_all_chapters_stale(recorded_book, package):
    version = pin(recorded_book, package, "0.1")
    reason = f"{package} is pinned to 0.1, it was {version}"
    assert reasons(recorded_book) == {"first": reason, "second": reason}


def test_a_pin_that_is_gone_makes_chapters_stale(recorded_book):
    version = pin(recorded_book, "ipykernel", None)
    assert reasons(recorded_book)["first"] == f"ipykernel is pinned to no version, it was {version}"


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


@pytest.fixture
def simulated_book(recorded_book):
    """The recorded book, and its first chapter as if recorded on two simulated GPUs."""
    copy_kernel(recorded_book, "simulated")
    shutil.copytree(ROOT / "cudasim" / "src", recorded_book / "cudasim" / "src")
    keep(recorded_book, "first", "simulated", {})
    return recorded_book


def change(root, runner, **changes):
    """Change parts of a kernel specification."""
    path = root / "kernels" / runner / "kernel.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def specification(root, runner):
    return json.loads((root / "kernels" / runner / "kernel.json").read_text())


def test_another_number_of_gpus_makes_outputs_stale(simulated_book):
    argv = specification(simulated_book, "simulated")["argv"]
    argv[argv.index("--simulate") + 1] = "3"
    change(simulated_book, "simulated", argv=argv)
    assert reasons(simulated_book, "simulated") == {"first": "the runner simulated changed"}
    assert reasons(simulated_book) == FRESH


def test_a_changed_simulator_makes_its_outputs_stale_and_no_others(simulated_book):
    (simulated_book / "cudasim" / "src" / "cudasim" / "new.py").write_text("")
    assert reasons(simulated_book, "simulated") == {"first": "the runner simulated changed"}
    assert reasons(simulated_book) == FRESH


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED"])
def test_a_variable_taken_out_of_a_runner_makes_its_outputs_stale(recorded_book, variable):
    env = specification(recorded_book, "cpu")["env"]
    env.pop(variable)
    change(recorded_book, "cpu", env=env)
    assert set(reasons(recorded_book).values()) == {"the runner cpu changed"}


def test_another_start_of_the_kernels_makes_outputs_stale(recorded_book):
    with (recorded_book / "kernels" / "start.py").open("a") as file:
        file.write("# changed\n")
    assert set(reasons(recorded_book).values()) == {"the runner cpu changed"}


def test_what_readers_are_told_of_a_runner_makes_nothing_stale(recorded_book):
    change(recorded_book, "cpu", display_name="Another", metadata={"runner": {"name": "Other"}})
    assert reasons(recorded_book) == FRESH


def test_outputs_of_a_card_are_stale_for_their_code_alone(gpu_book):
    pin(gpu_book, "ipykernel", "0.1")
    (gpu_book / "cudasim" / "src" / "cudasim" / "new.py").write_text("")
    change(gpu_book, "gpu", env={})
    assert reasons(gpu_book, CARD) == FRESH
    edit(gpu_book, "first", "make", "x = 2")
    assert reasons(gpu_book, CARD) == FRESH | {"first": "changed from the cell 'make' on"}


# What was not recorded, or not so, is refused.


def assert_refused(root, *parts):
    with pytest.raises(BookError) as error:
        Book(root).recordings  # noqa: B018
    assert_one_line(str(error.value), *parts)
    assert "checkout" not in str(error.value)  # it throws work away


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


def rename_chapter(outputs):
    outputs.metadata.provenance.chapter = "second"


def forget_count(outputs):
    cell(outputs, "make").execution_count = None


def edit_output(outputs):
    cell(outputs, "show").outputs[0].text = "x is 7\n"


def drop_output(outputs):
    cell(outputs, "show").outputs.pop()


def swap_key(outputs):
    cell(outputs, "show").metadata.key = cell(outputs, "make").metadata.key


def drop_cell(outputs):
    outputs.cells.pop()


def claim_hardware(outputs):
    outputs.metadata.provenance.hardware = "Abacus"


def claim_version(outputs):
    outputs.metadata.provenance.versions.torch = "9.0"


def drop_seconds(outputs):
    del outputs.metadata.provenance["seconds"]


EDITS = [edit_output, drop_output, swap_key, drop_cell]
EDITS += [claim_hardware, claim_version, drop_seconds]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (rename_chapter, "outputs of the chapter 'second'"),
        (forget_count, "the cell 'make' was not executed"),
        *((fault, "edited since it was recorded") for fault in EDITS),
    ],
)
@pytest.mark.parametrize("folder", ["cpu", CARD])
def test_outputs_that_are_not_as_recorded_are_refused_in_one_line(gpu_book, folder, fault, why):
    path = outputs_path("first", folder, gpu_book)
    outputs = read(path)
    fault(outputs)
    nbformat.write(outputs, path)
    again = "make record RUNNER=cpu CHAPTERS=first"
    if folder == CARD:
        again = "make record RUNNER=gpu CHAPTERS=first PYTHON=python3"
    assert_refused(gpu_book, f"outputs/{folder}/first.ipynb: {why}", again)


def test_outputs_copied_from_another_chapter_are_refused(recorded_book):
    folder = recorded_book / "outputs" / "cpu"
    shutil.copy(folder / "second.ipynb", folder / "first.ipynb")
    assert_refused(recorded_book, "outputs/cpu/first.ipynb: outputs of the chapter 'second'")


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


def test_every_cell_of_fresh_outputs_printed_and_none_waits(recorded_book):
    recording = first_on_cpu(recorded_book)
    assert list(recording.cells) == ["setup", "make", "show"]
    assert recording.cells["show"].outputs[0].text == "x is 1\n"
    assert recording.waiting == []


def test_cells_are_found_by_id_and_not_by_place(recorded_book):
    recording = first_on_cpu(recorded_book)
    recording.notebook.cells.reverse()
    assert recording.waiting == []
    assert recording.cells["show"].outputs[0].text == "x is 1\n"


def test_cells_wait_from_the_changed_one_on(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    recording = first_on_cpu(recorded_book)
    assert list(recording.cells) == ["setup"]
    assert recording.waiting == ["make", "show"]


def test_a_cell_that_is_new_waits(recorded_book):
    recording = first_on_cpu(recorded_book)
    recording.notebook.cells = [each for each in recording.notebook.cells if each.id != "show"]
    assert recording.waiting == ["show"]


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
        assert {"torch", "ipykernel"} == {
            "torch",
            "ipykernel",
            "ruff",
            "sphinx",
        } & facts.pins.keys()
    else:
        assert facts.card and facts.driver and facts.cuda
    assert recording.synced() == recording  # nothing to write in a fresh clone
    assert recording.cells
