"""Faulty chapters are refused in one line; keys follow the code and nothing else."""

import json

import pytest
from helpers import assert_one_line, cell, code, contents, edit, prose, read, run_tool, write

from tools.errors import BookError
from tools.run.recordings import stale_chapters
from tools.source.chapters import cell_keys, clear_outputs, read_chapter


def first(root):
    return root / "notebooks" / "first.ipynb"


def doctor(root, change):
    """Apply `change` to the JSON of the first chapter."""
    content = json.loads(first(root).read_text())
    change(content)
    first(root).write_text(json.dumps(content))


def drop_bracket(root):
    first(root).write_text(first(root).read_text().rstrip()[:-1])


def write_latin_1(root):
    edit(root, "first", "title", "# Fürst")
    text = json.dumps(json.loads(first(root).read_text()), ensure_ascii=False)
    first(root).write_bytes(text.encode("latin-1"))


def write_list(root):
    first(root).write_text("[]")


def save_as_4_4(root):
    doctor(root, lambda content: content.update(nbformat_minor=4))


def save_as_3(root):
    old = {"nbformat": 3, "nbformat_minor": 5, "metadata": {}, "worksheets": []}
    first(root).write_text(json.dumps(old))


def spell_minor_out(root):
    doctor(root, lambda content: content.update(nbformat_minor="five"))


def drop_source(root):
    doctor(root, lambda content: content["cells"][2].pop("source"))


def add_output(root):
    text = {"output_type": "stream", "name": "stdout", "text": "hello"}
    doctor(root, lambda content: content["cells"][2]["outputs"].append(text))


def add_count(root):
    doctor(root, lambda content: content["cells"][2].update(execution_count=1))


def repeat_id(root):
    doctor(root, lambda content: content["cells"][3].update(id="make"))


def drop_hardware(root):
    doctor(root, lambda content: content["metadata"].pop("hardware"))


def empty_hardware(root):
    doctor(root, lambda content: content["metadata"].update(hardware={}))


def misspell_hardware(root):
    doctor(root, lambda content: content["metadata"].update(hardware="two GPUs"))


def delete_chapter(root):
    (root / "notebooks" / "second.ipynb").unlink()


def add_unlisted(root):
    write(root, "third", code("sum", "3 + 3"))


def delete_toc(root):
    (root / "_toc.yml").unlink()


def break_toc(root):
    (root / "_toc.yml").write_text("root: book/preface\nchapters: [\n  - file: notebooks/first\n")


def write_toc_latin_1(root):
    (root / "_toc.yml").write_bytes("root: book/préface\n".encode("latin-1"))


def drop_root(root):
    (root / "_toc.yml").write_text("chapters:\n  - file: notebooks/first\n")


def empty_toc(root):
    (root / "_toc.yml").write_text("")


FAULTS = [
    (drop_bracket, "notebooks/first.ipynb", "git checkout"),
    (write_latin_1, "notebooks/first.ipynb", "git checkout"),
    (write_list, "notebooks/first.ipynb", "save it with"),
    (save_as_4_4, "notebooks/first.ipynb", "save it with"),
    (save_as_3, "notebooks/first.ipynb", "save it with"),
    (spell_minor_out, "notebooks/first.ipynb", "save it with"),
    (drop_source, "notebooks/first.ipynb", "mend it"),
    (add_output, "notebooks/first.ipynb", "'make clear'"),
    (add_count, "notebooks/first.ipynb", "'make clear'"),
    (repeat_id, "notebooks/first.ipynb", "two cells have the id 'make'"),
    (drop_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (empty_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (misspell_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (delete_chapter, "_toc.yml", "'notebooks/second' has no file; add"),
    (add_unlisted, "_toc.yml", "add 'file: notebooks/third'"),
    (delete_toc, "_toc.yml", "git checkout _toc.yml"),
    (break_toc, "_toc.yml", "mend it"),
    (write_toc_latin_1, "_toc.yml", "mend it"),
    (drop_root, "_toc.yml", "'root: book/preface'"),
    (empty_toc, "_toc.yml", "'root: book/preface'"),
]


@pytest.mark.parametrize(
    ("fault", "file", "mend"), FAULTS, ids=[fault.__name__ for fault, *_ in FAULTS]
)
def test_faulty_book_is_refused_in_one_line_and_no_output_changes(recorded_book, fault, file, mend):
    before = contents(recorded_book / "outputs")
    fault(recorded_book)
    with pytest.raises(BookError) as error:
        stale_chapters("cpu", recorded_book)  # what 'make book' asks first
    assert_one_line(str(error.value), f"{file}: ", mend)
    run = run_tool(recorded_book, "book")
    assert run.returncode == 1
    assert_one_line(run.stderr, f"error: {file}: ", mend)
    assert contents(recorded_book / "outputs") == before


def test_sound_book_is_accepted(recorded_book):
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stdout) == (0, "cpu: nothing stale\nsite\n"), run.stderr


def keys(root, name="first"):
    return cell_keys(read_chapter(name, root))


def test_one_character_of_code_changes_the_keys_from_there_on(small_book):
    before, other = keys(small_book), keys(small_book, "second")
    edit(small_book, "first", "make", "x = 2")
    after = keys(small_book)
    assert [id for id in before if before[id] != after[id]] == ["make", "show"]
    assert keys(small_book, "second") == other


def test_no_earlier_key_changes(small_book):
    before = keys(small_book)
    edit(small_book, "first", "show", "print('x is', x)\nx + 2")
    after = keys(small_book)
    assert [id for id in before if before[id] != after[id]] == ["show"]


def test_setup_cell_and_prose_change_no_key(small_book):
    before = keys(small_book)
    edit(small_book, "first", "setup", "import os")
    edit(small_book, "first", "title", "# Another title")
    assert keys(small_book) == before


def test_moving_code_between_cells_changes_keys(small_book):
    write(small_book, "second", code("a", "x = 1"), code("b", "y = 2"))
    before = keys(small_book, "second")
    write(small_book, "second", code("a", "x = 1y"), code("b", " = 2"))
    assert keys(small_book, "second")["b"] != before["b"]


def test_clear_takes_out_outputs_and_nothing_else(small_book):
    sound = read(first(small_book))
    second = small_book / "notebooks" / "second.ipynb"
    untouched = second.stat().st_mtime_ns
    add_output(small_book)
    add_count(small_book)
    assert clear_outputs(small_book) == ["first"]
    assert read(first(small_book)) == sound
    assert second.stat().st_mtime_ns == untouched
    assert clear_outputs(small_book) == []


def test_clear_is_what_its_error_message_says(small_book):
    add_output(small_book)
    run = run_tool(small_book, "clear")
    assert (run.returncode, run.stdout) == (0, "notebooks/first.ipynb: outputs cleared\n")
    assert cell(read_chapter("first", small_book), "make").outputs == []


def test_prose_cells_have_no_key(small_book):
    write(small_book, "second", prose("title", "# Second"), code("sum", "2 + 2"))
    assert list(keys(small_book, "second")) == ["sum"]
