"""Outputs are stale when code or pins change, and only then; they are written whole or not."""

import shutil
from pathlib import Path

import nbformat
import pytest
from helpers import (
    CARD,
    CHAPTERS,
    RECORDED,
    ROOT,
    assert_one_line,
    cell,
    code,
    contents,
    copy_kernel,
    edit,
    keep,
    notebook,
    read,
    run_tool,
    write,
)

from tools.environment import PINS, SetupError, pins_digest
from tools.errors import BookError
from tools.run.recordings import (
    is_stale,
    outputs_path,
    printed_cells,
    read_outputs,
    recorded_runners,
    stale_chapters,
    sync_outputs,
    waiting_cells,
)
from tools.run.runners import (
    GPU,
    local_runners,
    runner_chapters,
    runner_names,
    simulator_digest,
)
from tools.source.chapters import read_chapter, write_notebook


def test_chapters_without_outputs_are_stale(small_book):
    assert stale_chapters("cpu", small_book) == ["first", "second"]


def test_fresh_outputs_are_not_stale(recorded_book):
    assert stale_chapters("cpu", recorded_book) == []


@pytest.mark.parametrize("runner", ["gpu", "simulated"])
def test_outputs_of_one_runner_are_no_other_runners(recorded_book, runner):
    copy_kernel(recorded_book, runner)
    assert stale_chapters(runner, recorded_book) == ["first", "second"]


def test_outputs_of_a_simulation_are_stale_when_the_simulator_changed(gpu_book):
    # Under the simulator's own name: outputs of a card are stale for their code alone.
    copy_kernel(gpu_book, "simulated")
    facts = {"pins": pins_digest(gpu_book), "simulator": simulator_digest("simulated", gpu_book)}
    keep(gpu_book, "second", "simulated", {}, **facts)
    assert stale_chapters("simulated", gpu_book) == ["first"]
    (gpu_book / "cudasim" / "cards.py").write_text("")
    assert stale_chapters("simulated", gpu_book) == ["first", "second"]
    assert stale_chapters("cpu", gpu_book) == []


@pytest.mark.parametrize("file", PINS)
def test_outputs_of_a_card_are_stale_for_their_code_alone(gpu_book, file):
    def stale():
        chapter = read_chapter("first", gpu_book)
        return is_stale(chapter, read_outputs("first", CARD, gpu_book), gpu_book)

    (gpu_book / file).write_text("another-package==1.0\n")
    (gpu_book / "cudasim" / "cards.py").write_text("")
    assert not stale()
    edit(gpu_book, "first", "make", "x = 2")
    assert stale()


def test_changed_code_makes_its_chapter_stale_and_no_other(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    assert stale_chapters("cpu", recorded_book) == ["first"]


@pytest.mark.parametrize("change", ["dropped", "added", "renamed"])
def test_changed_cells_make_their_chapter_stale(recorded_book, change):
    cells = {
        "dropped": [code("a", "1")],
        "added": [code("sum", "2 + 2"), code("more", "3")],
        "renamed": [code("total", "2 + 2")],
    }
    write(recorded_book, "second", *cells[change])
    assert stale_chapters("cpu", recorded_book) == ["second"]


@pytest.mark.parametrize("pins", PINS)
def test_changed_pins_make_all_chapters_stale(recorded_book, pins):
    with (recorded_book / pins).open("a") as file:
        file.write("another-package==1.0\n")
    assert stale_chapters("cpu", recorded_book) == ["first", "second"]


@pytest.mark.parametrize("pins", PINS)
def test_comment_on_a_pin_makes_nothing_stale(recorded_book, pins):
    path = recorded_book / pins
    path.write_text(path.read_text().replace("#", "# still:"))
    assert stale_chapters("cpu", recorded_book) == []


def test_prose_and_setup_make_nothing_stale(recorded_book):
    edit(recorded_book, "first", "title", "# Another title")
    edit(recorded_book, "first", "setup", "import os")
    assert stale_chapters("cpu", recorded_book) == []


def test_date_and_hardware_make_nothing_stale(recorded_book):
    path = outputs_path("first", "cpu", recorded_book)
    outputs = read(path)
    outputs.metadata.provenance.update(date="1999-01-01", hardware="abacus", python="2.7")
    nbformat.write(outputs, path)
    assert stale_chapters("cpu", recorded_book) == []


def test_missing_pins_are_told_in_one_line(recorded_book):
    (recorded_book / PINS[0]).unlink()
    with pytest.raises(SetupError) as error:
        stale_chapters("cpu", recorded_book)
    assert_one_line(str(error.value), PINS[0], "git checkout")


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_damaged_outputs_are_told_in_one_line(recorded_book, content):
    outputs_path("first", "cpu", recorded_book).write_text(content)
    with pytest.raises(BookError) as error:
        stale_chapters("cpu", recorded_book)
    assert_one_line(str(error.value), "outputs/cpu/first.ipynb: ")


def test_outputs_without_provenance_are_told_in_one_line(recorded_book):
    nbformat.write(notebook(code("a", "1")), outputs_path("first", "cpu", recorded_book))
    with pytest.raises(BookError) as error:
        read_outputs("first", "cpu", recorded_book)
    assert_one_line(str(error.value), "outputs/cpu/first.ipynb: ", "make record RUNNER=cpu")


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


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (rename_chapter, "outputs of the chapter 'second'"),
        (forget_count, "the cell 'make' was not executed"),
        (edit_output, "edited since it was recorded; 'git checkout outputs/"),
        (drop_output, "edited since it was recorded"),
        (swap_key, "edited since it was recorded"),
        (drop_cell, "edited since it was recorded"),
    ],
)
@pytest.mark.parametrize("runner", ["cpu", CARD])
def test_outputs_that_are_not_as_recorded_are_refused_in_one_line(gpu_book, runner, fault, told):
    path = outputs_path("first", runner, gpu_book)
    outputs = read(path)
    fault(outputs)
    nbformat.write(outputs, path)
    with pytest.raises(BookError) as error:
        read_outputs("first", runner, gpu_book)
    again = "make record RUNNER=cpu CHAPTERS=first"
    if runner == CARD:
        again = "make record RUNNER=gpu CHAPTERS=first PYTHON=python3"
    assert_one_line(str(error.value), f"outputs/{runner}/first.ipynb: ", told, again)


def test_outputs_copied_from_another_chapter_are_refused(recorded_book):
    folder = recorded_book / "outputs" / "cpu"
    shutil.copy(folder / "second.ipynb", folder / "first.ipynb")
    with pytest.raises(BookError, match=r"^outputs/cpu/first\.ipynb: outputs of the chapter 's"):
        read_outputs("first", "cpu", recorded_book)


def test_recorded_runners_are_listed_in_the_order_of_the_tabs(gpu_book):
    copy_kernel(gpu_book, "simulated")
    for folder in ("a100", "simulated"):
        keep(gpu_book, "second", folder, {})
    (gpu_book / "outputs" / "empty").mkdir()
    assert recorded_runners(gpu_book) == ["simulated", "cpu", CARD, "a100"]


@pytest.mark.parametrize("runner", ["cpu", CARD])
def test_outputs_of_no_chapter_are_refused_in_one_line(gpu_book, runner):
    folder = gpu_book / "outputs" / runner
    (folder / "first.ipynb").rename(folder / "old.ipynb")
    with pytest.raises(BookError) as error:
        recorded_runners(gpu_book)
    assert_one_line(str(error.value), f"outputs/{runner}/old.ipynb: no chapter", "git mv")


def half(path, text, **options):
    """What `Path.write_text` does on a disk that fills up."""
    with path.open("w") as file:
        file.write(text[: len(text) // 2])
    raise OSError(28, "No space left on device")


def never(path, target):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(("step", "failure"), [("write_text", half), ("replace", never)])
def test_failed_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, step, failure):
    path = tmp_path / "a.ipynb"
    write_notebook(notebook(code("a", "1")), path)
    before = contents(tmp_path)
    monkeypatch.setattr(Path, step, failure)
    with pytest.raises(OSError):
        write_notebook(notebook(code("a", "2")), path)
    assert contents(tmp_path) == before


def test_written_notebook_reads_back_and_ends_in_one_newline(tmp_path):
    path = tmp_path / "new" / "a.ipynb"
    write_notebook(notebook(code("a", "1")), path)
    assert read(path) == notebook(code("a", "1"))
    assert path.read_text().endswith("}\n")
    assert [path] == list(path.parent.iterdir())


def both(root):
    return read_chapter("first", root), read_outputs("first", "cpu", root)


def test_every_cell_of_fresh_outputs_printed_and_none_waits(recorded_book):
    chapter, outputs = both(recorded_book)
    assert list(printed_cells(chapter, outputs)) == ["setup", "make", "show"]
    assert printed_cells(chapter, outputs)["show"].outputs[0].text == "x is 1\n"
    assert waiting_cells(chapter, outputs) == []


def test_cells_are_found_by_id_and_not_by_place(recorded_book):
    chapter, outputs = both(recorded_book)
    outputs.cells.reverse()
    assert waiting_cells(chapter, outputs) == []
    assert printed_cells(chapter, outputs)["show"].outputs[0].text == "x is 1\n"


def test_cells_wait_from_the_changed_one_on(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    chapter, outputs = both(recorded_book)
    assert list(printed_cells(chapter, outputs)) == ["setup"]
    assert waiting_cells(chapter, outputs) == ["make", "show"]


def test_a_cell_that_is_new_waits(recorded_book):
    chapter, outputs = both(recorded_book)
    outputs.cells = [cell for cell in outputs.cells if cell.id != "show"]
    assert waiting_cells(chapter, outputs) == ["show"]


def test_sync_carries_tags_and_setup_over_and_no_output_changes(recorded_book):
    before = read_outputs("first", "cpu", recorded_book)
    edit(recorded_book, "first", "setup", "import os")
    chapter = read_chapter("first", recorded_book)
    cell(chapter, "make").metadata.tags = ["hide-input"]
    write_notebook(chapter, recorded_book / "notebooks" / "first.ipynb")
    assert sync_outputs("cpu", recorded_book) == ["first"]
    after = read_outputs("first", "cpu", recorded_book)
    assert cell(after, "setup").source == "import os"
    assert cell(after, "make").metadata.tags == ["hide-input"]
    assert [cell.outputs for cell in after.cells] == [cell.outputs for cell in before.cells]
    assert after.metadata.provenance == before.metadata.provenance
    assert sync_outputs("cpu", recorded_book) == []


@pytest.mark.parametrize("command", ["sync", "book"])
def test_nothing_is_written_where_nothing_changed(recorded_book, command):
    before = contents(recorded_book / "outputs")
    if command == "sync":
        assert sync_outputs("cpu", recorded_book) == []
    else:
        assert run_tool(recorded_book, "book").returncode == 0
    assert contents(recorded_book / "outputs") == before


def test_sync_leaves_stale_outputs_alone(recorded_book):
    before = contents(recorded_book / "outputs")
    edit(recorded_book, "first", "make", "x = 2")
    assert sync_outputs("cpu", recorded_book) == []
    assert contents(recorded_book / "outputs") == before


@pytest.fixture(scope="module")
def real_book(tmp_path_factory):
    """A copy of what the repository records, so that no test can write into it."""
    root = tmp_path_factory.mktemp("real")
    for folder in ("notebooks", "outputs", "book", "kernels", "cudasim"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("tools"))
    for name in ("_toc.yml", *PINS):
        shutil.copy(ROOT / name, root)
    return root


@pytest.mark.parametrize("runner", local_runners())
def test_fresh_clone_has_nothing_to_execute(real_book, runner):
    assert stale_chapters(runner, real_book) == []


@pytest.mark.parametrize("runner", recorded_runners())
def test_fresh_clone_has_nothing_to_write(real_book, runner):
    assert sync_outputs(runner, real_book) == []


@pytest.mark.parametrize("runner", recorded_runners())
def test_every_recorded_notebook_belongs_to_a_chapter(runner):
    recorded = {path.stem for path in (ROOT / "outputs" / runner).iterdir()}
    assert recorded <= set(CHAPTERS)  # nbval would go on comparing what no page shows


@pytest.mark.parametrize("runner", local_runners())
def test_every_chapter_is_recorded_on_every_local_runner(runner):
    assert {(runner, name) for name in runner_chapters(runner)} <= set(RECORDED)


@pytest.mark.parametrize(("runner", "name"), RECORDED)
def test_recorded_outputs_say_where_and_when(runner, name):
    outputs = read_outputs(name, runner)
    facts = outputs.metadata.provenance
    assert facts.runner == (runner if runner in runner_names() else GPU)
    assert {"date", "hardware", "versions", "pins", "seconds"} <= facts.keys()
    assert ("simulator" in facts) == runner.startswith("simulated")
    if facts.runner == GPU:
        assert facts.card and facts.driver and facts.cuda
    assert printed_cells(read_chapter(name), outputs)
