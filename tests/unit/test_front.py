"""The first screen shows the versions that were measured, and no others."""

import json

import pytest
from helpers import refused

from tools.book.book import Book
from tools.record.clinic import FOLDER, MEASURED, key
from tools.site.front import STORY, changed_lines, read_versions

STORY_OF = """\
versions:
  {}:
    title: As found
    said: "It."
    taught: first#x
"""


@pytest.fixture
def book_with_version(small_book):
    """The root of a book whose script has one version, which was measured."""
    (small_book / FOLDER).mkdir(parents=True)
    (small_book / FOLDER / "0-as-found.py").write_text("0\n")
    answer = {"T4": {"error": "E: no"}}
    measured = {"key": key(small_book), "versions": {"0-as-found": answer}}
    (small_book / MEASURED).write_text(json.dumps(measured))
    return small_book


def test_versions_are_read_from_what_was_measured(book_with_version):
    (book_with_version / STORY).write_text(STORY_OF.format("0-as-found"))
    [version] = read_versions(Book(book_with_version))
    assert version.title == "As found"
    assert version.error == "E: no"


@pytest.mark.parametrize(
    ("story", "fault"),
    [
        (STORY_OF.format("gone"), "tells of other versions"),
        ("chapter: first\n", "'versions' is wrong or not there"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(book_with_version, story, fault):
    (book_with_version / STORY).write_text(story)
    with refused(STORY, fault):
        read_versions(Book(book_with_version))


def test_a_script_changed_after_it_was_measured_is_refused(book_with_version):
    (book_with_version / STORY).write_text(STORY_OF.format("0-as-found"))
    (book_with_version / FOLDER / "0-as-found.py").write_text("1\n")
    with refused(str(FOLDER), "measured before"):
        read_versions(Book(book_with_version))


def test_changed_lines_have_their_sign():
    assert changed_lines(["a", "b"], ["a", "c"]) == ["- b", "+ c"]
    changed = changed_lines(["    for a in b:"], ["    for a in c:", "        a()"])
    assert changed == ["- for a in b:", "+ for a in c:", "+     a()"]
