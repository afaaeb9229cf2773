"""The first screen shows only what its cell recorded."""

import json

import pytest
from helpers import copy_code, copy_kernel, refused
from making import changed, keep
from nbformat.v4 import new_code_cell, new_output

from tools.book.book import Book
from tools.book.grammar import VERSIONS
from tools.site.front import STORY, read_versions

TOLD = 'chapter: first\ncell: {}\nversions:\n  0 as found: {{said: "It.", taught: first#x}}\n'
FOUND = json.dumps([{"version": "0 as found", "error": "E: no\nmore"}])


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (
            TOLD.format("gone"),
            "the cell 'gone' of notebooks/first.ipynb is gone or not recorded",
        ),
        (
            TOLD.format("other"),
            "holds other versions than are told of; correct the list",
        ),
        ("chapter: first\n", "'cell' is wrong or not there; correct it"),
    ],
)
def test_a_cell_without_the_versions_is_refused(small_book, story, fault):
    copy_code(small_book, "cudasim/src")
    copy_kernel(small_book, "simulated")
    with changed(small_book / "notebooks" / "first.ipynb") as chapter:
        chapter.cells += [new_code_cell("0", id=id) for id in ("way", "other")]
    data = new_output("display_data", {VERSIONS: FOUND})
    keep(small_book, "first", "simulated", {"way": [data], "other": []})
    (small_book / STORY).parent.mkdir(exist_ok=True)
    (small_book / STORY).write_text(TOLD.format("way"))
    (version,), _ = read_versions(Book(small_book))
    assert (version.mend, version.error) == ("as found", "E: no")
    (small_book / STORY).write_text(story)
    with refused(STORY, fault):
        read_versions(Book(small_book))
