"""A new chapter keeps every rule, runs, and is one of the book at once."""

import pytest
from helpers import ROOT, assert_one_line, changed, code, contents, prose, read, run_tool, write

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.exercises.editions import book_chapter
from tools.exercises.masters import read_master
from tools.rules.rules import broken_rules


@pytest.fixture
def book(small_book):
    """A tiny book with what the cells of a new chapter are made from."""
    (small_book / "cudasim").mkdir()
    for name in ("_config.yml", "README.md", "cudasim/pyproject.toml"):
        (small_book / name).write_bytes((ROOT / name).read_bytes())
    write(small_book, "second", prose("title", "# Second"), code("setup", "", tags=["setup"]))
    return small_book


def test_a_new_chapter_keeps_every_rule_and_is_listed(book):
    run = run_tool(book, "chapter", "streams-and-events")
    assert run.returncode == 0, run.stderr
    path = "notebooks/streams-and-events.ipynb"
    assert run.stdout == f"{path}: made, and listed in _toc.yml; open it with 'make lab'\n"
    first, second, chapter = Book(book).chapters.values()
    assert (first.name, second.name, chapter.where) == ("first", "second", path)
    assert chapter.title == "Streams and events"
    assert [cell.id for cell in chapter.setup_cells] == ["switch", "setup"]
    readme = (book / "README.md").read_text(encoding="utf-8")
    assert f"[Streams and events]({path})" in readme
    assert broken_rules(chapter, [], ROOT) == []


@pytest.mark.parametrize("kind", ["puzzles", "symptoms"])
def test_a_new_chapter_stands_before_what_is_not_read_in_order(book, kind):
    with changed(book / "notebooks" / "second.ipynb") as notebook:
        notebook.metadata["kind"] = kind
    assert run_tool(book, "chapter", "new").returncode == 0
    assert [*Book(book).chapters] == ["first", "new", "second"]


def test_the_exercises_of_a_new_chapter_come_from_its_master(book):
    assert run_tool(book, "chapter", "new").returncode == 0
    master = read_master(book / "masters" / "new.md", book)
    chapter = Book(book).chapters["new"]
    assert master.title == chapter.title == "New"
    assert book_chapter(master, chapter).notebook == chapter.notebook
    template = Chapter("new", read(ROOT / "tools" / "book" / "template.ipynb"))
    assert book_chapter(master, template).notebook == template.notebook


def test_a_new_chapter_runs_from_its_first_cell_to_its_last(book):
    assert run_tool(book, "chapter", "new").returncode == 0
    run = run_tool(book, "record", "cpu", "--chapters", "new")
    assert run.returncode == 0, run.stderr
    printed = {cell.id: cell.outputs for cell in read(book / "outputs/cpu/new.ipynb").cells}
    assert printed["make"][0].data["text/plain"] == "device(type='cpu')"
    assert printed["bytes"][0].data["text/plain"] == "(24, 48)"


def test_a_master_that_is_there_is_not_written_over(book):
    (book / "masters").mkdir()
    (book / "masters" / "new.md").write_text("mine")
    run = run_tool(book, "chapter", "new")
    assert run.returncode == 1
    assert_one_line(run.stderr, "masters/new.md: there already")
    assert (book / "masters" / "new.md").read_text() == "mine"
    assert not (book / "notebooks" / "new.ipynb").exists()


@pytest.mark.parametrize("name", ["", "Streams", "a chapter", "../away", "a_b", "first"])
def test_a_name_that_will_not_do_is_one_line_and_changes_nothing(book, name):
    before = contents(book / "notebooks"), (book / "_toc.yml").read_text()
    run = run_tool(book, "chapter", name)
    assert run.returncode == 1
    assert_one_line(run.stderr, "choose another name" if name == "first" else "make chapter NAME=")
    assert (contents(book / "notebooks"), (book / "_toc.yml").read_text()) == before
