"""A new chapter: a notebook that keeps every rule, its master, and an entry in `_toc.yml`."""

import re
from pathlib import Path

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.links import linked_chapter
from tools.book.notebooks import notebook_text, read_notebook
from tools.errors import BookError
from tools.files import read_text, write_files
from tools.root import ROOT

TEMPLATE = Path(__file__).with_name("template.ipynb")
MASTER = TEMPLATE.with_suffix(".md")  # the source of its exercises
ENTRY = re.compile(r"^( *- file: )notebooks/(?P<name>.*)\n", re.M)


def make_chapter(name: str, book: Book) -> str:
    """Write a chapter, its master, and its entry, the last of the chapters; returns its path.

    Puzzles and symptoms, which are not read in order, stay behind it. Raises BookError for a
    name that is not in this book's style, or is taken, and if `_toc.yml` lists no chapter.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        example = "'python -m tools chapter streams-and-events'"
        raise BookError(f"'{name}': use small letters, and hyphens between words: {example}")
    root, master = book.root, f"masters/{name}.md"
    chapter = Chapter(name, read_notebook(TEMPLATE, ROOT))
    for path in (chapter.where, master):
        if (root / path).exists():
            raise BookError(f"{path}: there already; choose another name")
    lessons = [name for name, chapter in book.chapters.items() if chapter.is_lesson]
    toc = read_text(root / "_toc.yml", root)
    entries = [entry for entry in ENTRY.finditer(toc) if entry["name"] in lessons]
    if not entries:
        raise BookError("_toc.yml: lists no chapter; add one there: '- file: notebooks/...'")
    last, title = entries[-1], name.replace("-", " ").capitalize()
    heading = chapter.notebook.cells[0]
    heading.source = heading.source.replace("TITLE", title)
    entry = f"{last[1]}notebooks/{name}\n"
    files = {
        chapter.where: notebook_text(linked_chapter(chapter, book.repository, root).notebook),
        master: read_text(MASTER, ROOT).replace("TITLE", title),
        "_toc.yml": toc[: last.end()] + entry + toc[last.end() :],
    }
    write_files({root / path: text for path, text in files.items()}, root)
    return chapter.where
