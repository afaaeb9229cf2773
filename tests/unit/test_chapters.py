"""Faulty books are refused in one line; keys follow the code and nothing else."""

import json

import pytest
from helpers import code, contents, prose, read, refused, run_tool, write

from tools.book.book import Book
from tools.book.chapters import clear_outputs, read_chapter
from tools.record.record import stale_runs


def first(root):
    return root / "notebooks" / "first.ipynb"


def doctored(change):
    """A fault: `change` of the JSON of the first chapter."""

    def fault(root):
        content = json.loads(first(root).read_text())
        change(content)
        first(root).write_text(json.dumps(content))

    return fault


def holding(text, name="notebooks/first.ipynb"):
    """A fault: a file that holds this text."""
    return lambda root: (root / name).write_text(text)


def drop_bracket(root):
    first(root).write_text(first(root).read_text().rstrip()[:-1])


def drop_code(root):
    write(root, "first", prose("title", "# First"))


def delete_chapter(root):
    (root / "notebooks" / "second.ipynb").unlink()


HELLO = {"output_type": "stream", "name": "stdout", "text": "hello"}
FORMAT_3 = '{"nbformat": 3, "nbformat_minor": 5, "metadata": {}, "worksheets": []}'
add_output = doctored(lambda made: made["cells"][2]["outputs"].append(HELLO))
add_count = doctored(lambda made: made["cells"][2].update(execution_count=1))

FAULTS = {  # by the file that the message names
    "notebooks/first.ipynb": [
        (drop_bracket, "correct it there"),
        (holding("[]"), "save it with"),
        (holding(FORMAT_3), "save it with"),
        (doctored(lambda made: made.update(nbformat_minor=4)), "save it with"),
        (doctored(lambda made: made["cells"][2].pop("source")), "correct it in Jupyter"),
        (add_output, "'python -m tools clear'"),
        (add_count, "'python -m tools clear'"),
        (doctored(lambda made: made["cells"][3].update(id="make")), "two cells have the id 'make'"),
        (drop_code, "no code cell; move it to book"),
        (
            doctored(lambda made: made["cells"][2]["metadata"].update(tags=["hide_input"])),
            "cell 2 ('make') has the tag 'hide_input'",
        ),
        (doctored(lambda made: made["metadata"].update(hardware="two")), '"hardware": {"gpus"'),
    ],
    "_toc.yml": [
        (delete_chapter, "'notebooks/second' has no file; add one"),
        (holding("root: book/preface\nchapters: [\n", "_toc.yml"), "correct it there"),
        (holding("chapters:\n  - file: notebooks/first\n", "_toc.yml"), "'root: book/preface'"),
        (holding("", "_toc.yml"), "'root: book/preface'"),
    ],
}


def assert_refused(root, *parts):
    """What 'make book' asks first says what is wrong in one line; returns that line."""
    with refused(*parts) as error:
        stale_runs(Book(root))
    return str(error.value)


@pytest.mark.parametrize(
    ("file", "fault", "advice"), [(file, *case) for file in FAULTS for case in FAULTS[file]]
)
def test_faulty_book_is_refused_in_one_line(small_book, file, fault, advice):
    fault(small_book)
    assert_refused(small_book, f"{file}: ", advice)


def test_the_command_says_the_line_and_changes_no_output(recorded_book):
    before = contents(recorded_book / "outputs")
    add_output(recorded_book)
    line = assert_refused(recorded_book)
    run = run_tool(recorded_book, "book")
    assert (run.returncode, run.stderr) == (1, f"error: {line}\n")
    assert contents(recorded_book / "outputs") == before


CONFLICT = b"\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
TEXT_FAULTS = {
    "byte order mark; save it as UTF-8 without one": lambda text: b"\xef\xbb\xbf" + text,
    "conflict markers of git from line 2 on; choose what to keep there": (
        lambda text: text.replace(b"\n", CONFLICT, 1)
    ),
    "save it as UTF-8": lambda text: text + b"# pr\xe9face",
}


@pytest.mark.parametrize(("advice", "fault"), TEXT_FAULTS.items(), ids=("mark", "merge", "latin 1"))
@pytest.mark.parametrize(
    "file", ["notebooks/first.ipynb", "_toc.yml", "kernels/cpu/kernel.json", "requirements.txt"]
)
def test_text_that_editors_and_merges_spoil_is_refused(small_book, file, advice, fault):
    path = small_book / file
    path.write_bytes(fault(path.read_bytes()))
    with refused(f"{file}: ", advice):
        book = Book(small_book)
        assert book.chapters and book.runners and book.pins
    path.unlink()
    if file in ("_toc.yml", "requirements.txt"):
        with refused(f"{file}: no such file", f"'git restore {file}'"):
            book = Book(small_book)
            assert book.chapters and book.pins


def test_keys_follow_where_code_stands_and_no_marker_within_a_line_is_a_conflict(small_book):
    write(small_book, "second", code("a", "x = 1"), code("b", "y = 2 <<<<<<< 2"))
    before = read_chapter("second", small_book).keys
    write(small_book, "second", code("a", "x = 1y"), code("b", " = 2 <<<<<<< 2"))
    assert read_chapter("second", small_book).keys["b"] != before["b"]


def test_clear_takes_out_outputs_and_nothing_else(small_book):
    sound = read(first(small_book))
    second = small_book / "notebooks" / "second.ipynb"
    untouched = second.stat().st_mtime_ns
    add_output(small_book)
    add_count(small_book)
    assert clear_outputs(small_book) == ["first"]
    assert read(first(small_book)) == sound
    assert second.stat().st_mtime_ns == untouched
