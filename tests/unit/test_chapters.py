"""Faulty books are refused in one line; keys follow the code and nothing else."""

import json

import pytest
from helpers import code, read, refused, write

from tools.book.book import Book
from tools.book.chapters import clear_outputs, read_chapter

FIRST = "notebooks/first.ipynb"
PINS = "requirements.txt"


# Each of these returns a fault: a function that spoils the file at a path.


def replaced(old, new):
    def spoil(path):
        path.write_bytes(path.read_bytes().replace(old, new, 1))

    return spoil


def written(text):
    def spoil(path):
        path.write_text(text)

    return spoil


def with_cell(index, **fields):
    """Change fields of a cell in the chapter's JSON."""

    def spoil(path):
        content = json.loads(path.read_text())
        content["cells"][index].update(fields)
        path.write_text(json.dumps(content))

    return spoil


def of_an_old_format(path):
    content = json.loads(path.read_text())
    content["nbformat_minor"] = 4
    path.write_text(json.dumps(content))


def of_no_kind(path):
    content = json.loads(path.read_text())
    content["metadata"]["kind"] = "puzzle"
    path.write_text(json.dumps(content))


def cut_short(path):
    path.write_text(path.read_text()[:-3])


def gone(path):
    path.unlink()


HELLO = {"output_type": "stream", "name": "stdout", "text": "hello"}
CONFLICT = b"\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
add_output = with_cell(2, outputs=[HELLO], execution_count=1)
misspell_tag = with_cell(2, metadata={"tags": ["hide_input"]})
FAULTS = [
    (FIRST, cut_short, "correct it there"),
    (FIRST, of_an_old_format, "save it with"),
    (FIRST, of_no_kind, "'puzzle'; use one of lesson, symptoms, puzzles, outcomes"),
    (FIRST, add_output, "'python -m tools clear'"),
    (FIRST, with_cell(3, id="make"), "have the id 'make'"),
    (FIRST, misspell_tag, "cell 2 ('make') has the tag 'hide_input'"),
    (FIRST, replaced(b"{", b"\xef\xbb\xbf{"), "byte order mark; save it as UTF-8"),
    (FIRST, replaced(b"\n", CONFLICT), "conflict markers of git from line 2 on"),
    (PINS, replaced(b"#", b"# pr\xe9face"), "save it as UTF-8"),
    (PINS, written("numpy>=2"), "line 1, 'numpy>=2', is not 'package==version'"),
    (PINS, written("d2l==1\nD2L==2"), "line 2: d2l is pinned twice"),
    (
        "kernels/cpu/kernel.json",
        written('{"argv": "python"}'),
        "not a kernel specification",
    ),
    (
        "_toc.yml",
        replaced(b"second", b"third"),
        "'notebooks/third' has no file; add one",
    ),
    ("_toc.yml", written("chapters: [\n"), "correct it there"),
    ("_toc.yml", written(""), "'root: book/preface'"),
    ("_toc.yml", gone, "no such file"),
]


@pytest.mark.parametrize(("file", "spoil", "advice"), FAULTS)
def test_a_faulty_file_is_one_line_with_advice(small_book, file, spoil, advice):
    spoil(small_book / file)
    with refused(f"{file}: ", advice):
        book = Book(small_book)
        assert book.chapters and book.runners and book.pins


def test_the_same_characters_in_other_cells_have_other_keys(small_book):
    # A conflict marker within a line is no conflict.
    write(small_book, "second", code("a", "x = 1"), code("b", "y = 2 <<<<<<< 2"))
    before = read_chapter("second", small_book).keys
    write(small_book, "second", code("a", "x = 1y"), code("b", " = 2 <<<<<<< 2"))
    assert read_chapter("second", small_book).keys["b"] != before["b"]


def test_clear_takes_out_outputs_and_nothing_else(small_book):
    first = small_book / FIRST
    second = small_book / "notebooks" / "second.ipynb"
    sound = read(first)
    untouched = second.stat().st_mtime_ns
    add_output(first)
    assert clear_outputs(small_book) == [FIRST]
    assert read(first) == sound
    assert second.stat().st_mtime_ns == untouched
