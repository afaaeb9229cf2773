"""Faulty books are refused in one line; keys follow the code and nothing else."""

import json

import pytest
from helpers import code, read, refused, write

from tools.book.book import Book
from tools.book.chapters import clear_outputs, read_chapter

FIRST = "notebooks/first.ipynb"


def replaced(old, new):
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


def written(text):
    return lambda path: path.write_text(text)


def doctored(change):
    """A fault: `change` of the JSON of a chapter."""

    def fault(path):
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return fault


HELLO = {"output_type": "stream", "name": "stdout", "text": "hello"}
CONFLICT = b"\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
misspell = doctored(
    lambda made: made["cells"][2]["metadata"].update(tags=["hide_input"])
)
add_output = doctored(
    lambda made: made["cells"][2].update(outputs=[HELLO], execution_count=1)
)


@pytest.mark.parametrize(
    ("file", "fault", "advice"),
    [
        (
            FIRST,
            lambda path: path.write_text(path.read_text()[:-3]),
            "correct it there",
        ),
        (FIRST, doctored(lambda made: made.update(nbformat_minor=4)), "save it with"),
        (FIRST, add_output, "'python -m tools clear'"),
        (
            FIRST,
            doctored(lambda made: made["cells"][3].update(id="make")),
            "have the id 'make'",
        ),
        (FIRST, misspell, "cell 2 ('make') has the tag 'hide_input'"),
        (
            FIRST,
            replaced(b"{", b"\xef\xbb\xbf{"),
            "byte order mark; save it as UTF-8 without one",
        ),
        (
            FIRST,
            doctored(lambda made: made["metadata"].update(kind="puzzle")),
            "'puzzle'; use one of lesson, symptoms, puzzles, outcomes",
        ),
        (FIRST, replaced(b"\n", CONFLICT), "conflict markers of git from line 2 on"),
        ("requirements.txt", replaced(b"#", b"# pr\xe9face"), "save it as UTF-8"),
        (
            "requirements.txt",
            written("numpy>=2"),
            "line 1, 'numpy>=2', is not 'package==version'",
        ),
        ("requirements.txt", written("d2l==1\nD2L==2"), "line 2: d2l is pinned twice"),
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
        ("_toc.yml", lambda path: path.unlink(), "no such file"),
    ],
)
def test_a_faulty_file_is_named_in_one_line_with_its_mend(
    small_book, file, fault, advice
):
    fault(small_book / file)
    with refused(f"{file}: ", advice):
        book = Book(small_book)
        assert book.chapters and book.runners and book.pins


def test_keys_follow_where_code_stands_and_no_marker_within_a_line_is_a_conflict(
    small_book,
):
    write(small_book, "second", code("a", "x = 1"), code("b", "y = 2 <<<<<<< 2"))
    before = read_chapter("second", small_book).keys
    write(small_book, "second", code("a", "x = 1y"), code("b", " = 2 <<<<<<< 2"))
    assert read_chapter("second", small_book).keys["b"] != before["b"]


def test_clear_takes_out_outputs_and_nothing_else(small_book):
    sound, second = read(small_book / FIRST), small_book / "notebooks" / "second.ipynb"
    untouched = second.stat().st_mtime_ns
    add_output(small_book / FIRST)
    assert clear_outputs(small_book) == ["notebooks/first.ipynb"]
    assert read(small_book / FIRST) == sound
    assert second.stat().st_mtime_ns == untouched
