"""Outputs are stale when code or pins change, and only then; they are written whole or not."""

import shutil
from pathlib import Path

import nbformat
import pytest
from helpers import (
    CHAPTERS,
    ROOT,
    assert_one_line,
    cell,
    code,
    contents,
    edit,
    notebook,
    read,
    run_tool,
    write,
)

from book.tools.chapters import cell_keys, read_chapter, write_notebook
from book.tools.environment import PINS, SetupError
from book.tools.errors import BookError
from book.tools.outputs import merge, outputs_path, read_outputs, stale_chapters, sync_outputs


def test_chapters_without_outputs_are_stale(small_book):
    assert stale_chapters("cpu", small_book) == ["first", "second"]


def test_fresh_outputs_are_not_stale(recorded_book):
    assert stale_chapters("cpu", recorded_book) == []


@pytest.mark.parametrize("runner", ["gpu", "simulated"])
def test_outputs_of_one_runner_are_no_other_runners(recorded_book, runner):
    assert stale_chapters(runner, recorded_book) == ["first", "second"]


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


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_damaged_outputs_are_told_in_one_line(recorded_book, text):
    outputs_path("first", "cpu", recorded_book).write_text(text)
    with pytest.raises(BookError) as error:
        stale_chapters("cpu", recorded_book)
    assert_one_line(str(error.value), "outputs/cpu/first.ipynb: ")


def test_outputs_without_provenance_are_told_in_one_line(recorded_book):
    nbformat.write(notebook(code("a", "1")), outputs_path("first", "cpu", recorded_book))
    with pytest.raises(BookError) as error:
        read_outputs("first", "cpu", recorded_book)
    assert_one_line(str(error.value), "outputs/cpu/first.ipynb: ", "make record RUNNER=cpu")


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


def printed(cell):
    return [output.get("text") or output.data["text/plain"] for output in cell.outputs]


def both(root):
    return read_chapter("first", root), read_outputs("first", "cpu", root)


def test_merge_gives_each_cell_its_outputs(recorded_book):
    page, waiting = merge(*both(recorded_book))
    assert waiting == []
    assert printed(cell(page, "show")) == ["x is 1\n", "2"]
    assert cell(page, "title").source == "# First"


def test_merge_goes_by_id_and_not_by_place(recorded_book):
    chapter, outputs = both(recorded_book)
    outputs.cells.reverse()
    page, waiting = merge(chapter, outputs)
    assert (waiting, printed(cell(page, "show"))) == ([], ["x is 1\n", "2"])


def test_merge_lists_the_cells_that_wait(recorded_book):
    edit(recorded_book, "first", "make", "x = 2")
    page, waiting = merge(*both(recorded_book))
    assert waiting == ["make", "show"]
    assert cell(page, "show").outputs == []


def test_merge_lists_a_cell_that_was_never_executed(recorded_book):
    chapter, outputs = both(recorded_book)
    outputs.cells = [cell for cell in outputs.cells if cell.id != "show"]
    assert merge(chapter, outputs)[1] == ["show"]


def test_merge_leaves_what_it_was_given(recorded_book):
    chapter, outputs = both(recorded_book)
    merge(chapter, outputs)
    assert (chapter, outputs) == both(recorded_book)


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
    for folder in ("notebooks", "outputs", "book"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("tools"))
    for name in ("_toc.yml", *PINS):
        shutil.copy(ROOT / name, root)
    return root


def test_fresh_clone_has_nothing_to_execute_and_nothing_to_write(real_book):
    assert stale_chapters("cpu", real_book) == []
    assert sync_outputs("cpu", real_book) == []


@pytest.mark.parametrize("runner", [path.name for path in (ROOT / "outputs").iterdir()])
def test_every_recorded_notebook_belongs_to_a_chapter(runner):
    recorded = {path.stem for path in (ROOT / "outputs" / runner).iterdir()}
    assert recorded <= set(CHAPTERS)  # nbval would go on comparing what no page shows


@pytest.mark.parametrize("name", CHAPTERS)
def test_recorded_outputs_say_where_and_when(name):
    outputs = read(outputs_path(name, "cpu"))
    assert outputs.metadata.provenance.runner == "cpu"
    assert {"date", "hardware", "versions", "pins"} <= outputs.metadata.provenance.keys()
    assert {c.id: c.metadata.key for c in outputs.cells} == cell_keys(read_chapter(name))
