"""A new chapter keeps every rule, runs, and is one of the book at once."""

import pytest
from helpers import (
    ROOT,
    changed,
    code,
    contents,
    outputs_path,
    prose,
    read,
    refused,
    run_tool,
    write,
)

from tools.book.book import Book
from tools.book.new_chapter import make_chapter
from tools.exercises.editions import book_chapter
from tools.exercises.masters import read_master
from tools.record.record import record
from tools.rules.rules import broken_rules


@pytest.fixture
def book(small_book):
    (small_book / "cudasim").mkdir()
    for name in ("_config.yml", "README.md", "cudasim/pyproject.toml"):
        (small_book / name).write_bytes((ROOT / name).read_bytes())
    write(small_book, "second", prose("title", "# Second"), code("setup", "", tags=["setup"]))
    return small_book


def test_a_new_chapter_keeps_every_rule_is_listed_and_runs(book):
    with changed(book / "notebooks" / "second.ipynb") as notebook:
        notebook.metadata["kind"] = "symptoms"  # it is not read in order, and stays the last
    run = run_tool(book, "chapter", "streams-and-events")
    assert run.returncode == 0, run.stderr
    path = "notebooks/streams-and-events.ipynb"
    assert run.stdout == f"{path}: made, and listed in _toc.yml; open it with 'make lab'\n"
    first, chapter, second = Book(book).chapters.values()
    assert (first.name, second.name, chapter.where) == ("first", "second", path)
    readme = (book / "README.md").read_text(encoding="utf-8")
    assert f"[Streams and events]({path})" in readme
    assert broken_rules(chapter, Book(ROOT)) == []
    master = read_master(book / "masters" / "streams-and-events.md", book)
    assert book_chapter(master, chapter).notebook == chapter.notebook
    record(["cpu"], [chapter.name], Book(book))
    outputs = {
        cell.id: cell.outputs for cell in read(outputs_path(chapter.name, "cpu", book)).cells
    }
    assert outputs["bytes"][0].data["text/plain"] == "(24, 48)"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("new", "masters/new.md: there already"),
        ("first", "choose another name"),
        ("a chapter", "python -m tools chapter"),
        ("../away", "python -m tools chapter"),
    ],
)
def test_a_name_that_will_not_do_is_one_line_and_changes_nothing(book, name, part):
    (book / "masters").mkdir()
    (book / "masters" / "new.md").write_text("mine")
    before = contents(book)
    with refused(part):
        make_chapter(name, Book(book))
    assert contents(book) == before
