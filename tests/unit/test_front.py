"""The first screen shows only what its cell recorded."""

import json

import pytest
from helpers import copy_code, copy_kernel, refused
from making import changed, display, keep
from nbformat.v4 import new_code_cell

from tools.book.book import Book
from tools.book.grammar import VERSIONS
from tools.site.front import STORY, read_versions

RECORDED = json.dumps([{"version": "0 as found", "error": "E: no\nmore"}])
STORY_OF = """\
chapter: first
cell: {}
versions:
  0 as found: {{said: "It.", taught: first#x}}
"""


@pytest.fixture
def book_with_versions(small_book):
    """The root of a book whose cell `way` has printed versions; `other` has printed nothing."""
    copy_code(small_book, "cudasim/src")
    copy_kernel(small_book, "simulated")
    with changed(small_book / "notebooks" / "first.ipynb") as chapter:
        chapter.cells.append(new_code_cell("0", id="way"))
        chapter.cells.append(new_code_cell("0", id="other"))
    printed = display(RECORDED, VERSIONS)
    keep(small_book, "first", "simulated", {"way": [printed], "other": []})
    return small_book


def tell(root, story):
    path = root / STORY
    path.parent.mkdir(exist_ok=True)
    path.write_text(story)


def test_versions_are_read_from_a_recording(book_with_versions):
    tell(book_with_versions, STORY_OF.format("way"))
    [version], _ = read_versions(Book(book_with_versions))
    assert version.mend == "as found"
    assert version.error == "E: no"


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (
            STORY_OF.format("gone"),
            "the cell 'gone' of notebooks/first.ipynb is gone or not recorded",
        ),
        (
            STORY_OF.format("other"),
            "holds other versions than are told of; correct the list",
        ),
        ("chapter: first\n", "'cell' is wrong or not there; correct it"),
    ],
)
def test_a_cell_without_the_versions_is_refused(book_with_versions, story, fault):
    tell(book_with_versions, story)
    with refused(STORY, fault):
        read_versions(Book(book_with_versions))
