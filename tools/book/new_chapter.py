"""A new chapter: a notebook that keeps every rule, its master, and an entry in `_toc.yml`."""

import re
from pathlib import Path

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.links import linked_chapter
from tools.book.notebooks import read_notebook, write_notebook
from tools.errors import BookError
from tools.files import read_text, write_text
from tools.root import ROOT

TEMPLATE = Path(__file__).with_name("template.ipynb")
MASTER = TEMPLATE.with_suffix(".md")  # the source of its exercises
ENTRY = re.compile(r"^( *- file: )notebooks/(?P<name>.*)\n", re.M)


def is_read_in_order(name: str, book: Book) -> bool:
    """False for puzzles and for symptoms, which come after the chapters."""
    chapter = book.chapters[name]
    return not (chapter.holds_puzzles or chapter.lists_symptoms)


def make_chapter(name: str, book: Book) -> str:
    """Write a chapter, its master, and its entry, the last of the chapters; returns its path.

    Raises BookError for a name that is no file name in this book's style, or is taken, and if
    `_toc.yml` lists no chapter behind which it could stand.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise BookError(
            f"'{name}': no name of a chapter; use words in small letters joined by hyphens: "
            "'make chapter NAME=streams-and-events'"
        )
    root, path = book.root, book.root / "notebooks" / f"{name}.ipynb"
    master = root / "masters" / f"{name}.md"
    if path.exists() or name in book.chapters:
        raise BookError(f"notebooks/{name}.ipynb: there already; choose another name")
    if master.exists():
        raise BookError(f"masters/{name}.md: there already; choose another name")
    toc = read_text(root / "_toc.yml", root)
    entries = ENTRY.finditer(toc)
    *_, last = [None, *(entry for entry in entries if is_read_in_order(entry["name"], book))]
    if last is None:
        raise BookError(
            "_toc.yml: lists no chapter; add one there by hand: '- file: notebooks/...'"
        )
    notebook = read_notebook(TEMPLATE, ROOT)
    title = name.replace("-", " ").capitalize()
    notebook.cells[0].source = notebook.cells[0].source.replace("TITLE", title)
    chapter = linked_chapter(Chapter(name, notebook), book.repository, root)
    write_notebook(chapter.notebook, path, root)
    write_text(master, read_text(MASTER, ROOT).replace("TITLE", title), root)
    entry = f"{last[1]}notebooks/{name}\n"
    write_text(root / "_toc.yml", toc[: last.end()] + entry + toc[last.end() :], root)
    return chapter.where
