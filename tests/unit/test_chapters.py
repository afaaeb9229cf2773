"""Faulty books are refused in one line; keys follow the code and nothing else."""

import json

import pytest
from helpers import assert_one_line, cell, code, contents, edit, prose, read, run_tool, write

from tools.errors import BookError
from tools.run.record import stale_runs
from tools.source.book import Book
from tools.source.chapters import clear_outputs, read_chapter


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


def drop_code(root):
    write(root, "first", prose("title", "# First"))


def misspell_tag(root):
    doctor(root, lambda content: content["cells"][2]["metadata"].update(tags=["hide_input"]))


def drop_hardware(root):
    doctor(root, lambda content: content["metadata"].pop("hardware"))


def empty_hardware(root):
    doctor(root, lambda content: content["metadata"].update(hardware={}))


def misspell_hardware(root):
    doctor(root, lambda content: content["metadata"].update(hardware="two GPUs"))


def delete_chapter(root):
    (root / "notebooks" / "second.ipynb").unlink()


def break_toc(root):
    (root / "_toc.yml").write_text("root: book/preface\nchapters: [\n  - file: notebooks/first\n")


def drop_root(root):
    (root / "_toc.yml").write_text("chapters:\n  - file: notebooks/first\n")


def empty_toc(root):
    (root / "_toc.yml").write_text("")


FAULTS = [
    (drop_bracket, "notebooks/first.ipynb", "correct it there"),
    (write_latin_1, "notebooks/first.ipynb", "save it as UTF-8"),
    (write_list, "notebooks/first.ipynb", "save it with"),
    (save_as_4_4, "notebooks/first.ipynb", "save it with"),
    (save_as_3, "notebooks/first.ipynb", "save it with"),
    (spell_minor_out, "notebooks/first.ipynb", "save it with"),
    (drop_source, "notebooks/first.ipynb", "correct it in Jupyter"),
    (add_output, "notebooks/first.ipynb", "'make clear'"),
    (add_count, "notebooks/first.ipynb", "'make clear'"),
    (repeat_id, "notebooks/first.ipynb", "two cells have the id 'make'"),
    (drop_code, "notebooks/first.ipynb", "no code cell; a page without code is Markdown"),
    (misspell_tag, "notebooks/first.ipynb", "cell 2 ('make') has the tag 'hide_input'"),
    (drop_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (empty_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (misspell_hardware, "notebooks/first.ipynb", '"hardware": {"gpus"'),
    (delete_chapter, "_toc.yml", "'notebooks/second' has no file; add"),
    (break_toc, "_toc.yml", "correct it there"),
    (drop_root, "_toc.yml", "'root: book/preface'"),
    (empty_toc, "_toc.yml", "'root: book/preface'"),
]


def assert_refused(root, *parts):
    """What 'make book' asks first says what is wrong in one line; returns that line."""
    with pytest.raises(BookError) as error:
        stale_runs(Book(root))
    assert_one_line(str(error.value), *parts)
    assert "checkout" not in str(error.value)  # it throws work away
    return str(error.value)


@pytest.mark.parametrize(
    ("fault", "file", "advice"), FAULTS, ids=[fault.__name__ for fault, *_ in FAULTS]
)
def test_faulty_book_is_refused_in_one_line_and_no_output_changes(
    recorded_book, fault, file, advice
):
    before = contents(recorded_book / "outputs")
    fault(recorded_book)
    line = assert_refused(recorded_book, f"{file}: ", advice)
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stderr) == (1, f"error: {line}\n")
    assert contents(recorded_book / "outputs") == before


def begin_with_mark(path):
    path.write_text("\ufeff" + path.read_text())


def leave_conflict(path):
    first, *others = path.read_text().splitlines(keepends=True)
    merge = ["<<<<<<< HEAD\n", "ours\n", "=======\n", "theirs\n", ">>>>>>> branch\n"]
    path.write_text("".join([first, *merge, *others]))


def write_no_utf_8(path):
    path.write_bytes(path.read_bytes() + "# pr\xe9face".encode("latin-1"))


TEXT_FAULTS = {
    begin_with_mark: "byte order mark; save it as UTF-8 without one",
    leave_conflict: "conflict markers of git from line 2 on; choose what to keep there",
    write_no_utf_8: "save it as UTF-8",
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
@pytest.mark.parametrize(
    "file",
    ["notebooks/first.ipynb", "_toc.yml", "kernels/cpu/kernel.json", "requirements.txt"],
)
def test_text_that_editors_and_merges_spoil_is_refused_in_one_line(recorded_book, fault, file):
    fault(recorded_book / file)
    assert_refused(recorded_book, f"{file}: ", TEXT_FAULTS[fault])


@pytest.mark.parametrize("file", ["_toc.yml", "requirements.txt", "requirements-no-deps.txt"])
def test_a_missing_file_is_missed_in_one_line(recorded_book, file):
    (recorded_book / file).unlink()
    assert_refused(recorded_book, f"{file}: no such file", f"'git restore {file}'")


def test_markers_in_the_middle_of_a_line_are_no_conflict(small_book):
    edit(small_book, "first", "make", "x = 1 <<<<<<< 2")
    assert read_chapter("first", small_book).code_cells


def test_sound_book_is_accepted(recorded_book):
    site = f"site: {recorded_book / '_build' / 'html' / 'index.html'}\n"
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stdout, run.stderr) == (0, site, "")
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stdout) == (0, f"nothing stale: neither outputs nor site\n{site}")


def test_a_notebook_that_is_no_chapter_is_noted_and_blocks_nothing(recorded_book):
    (recorded_book / "notebooks" / "third.ipynb").write_text("{")  # as Jupyter may leave it
    run = run_tool(recorded_book, "book")
    assert run.returncode == 0, run.stderr
    note, _ = run.stdout.splitlines()
    add = "add 'file: notebooks/third' to _toc.yml, or remove it"
    assert note == f"note: notebooks/third.ipynb: no chapter; {add}"


def keys(root, name="first"):
    return read_chapter(name, root).keys


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
    assert cell(read_chapter("first", small_book).notebook, "make").outputs == []


def test_prose_cells_have_no_key(small_book):
    write(small_book, "second", prose("title", "# Second"), code("sum", "2 + 2"))
    assert list(keys(small_book, "second")) == ["sum"]
