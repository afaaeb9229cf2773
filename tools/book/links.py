"""Where readers run a chapter: links to services, from the one place that names the repository.

`python -m tools links` writes what depends on that place: a row of links and the set-up into
every chapter, with the recordings that carry them, a table into `README.md`, and an address for
pip where a text says how to install the simulator.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from nbformat.v4 import new_markdown_cell

from tools.book.book import Book
from tools.book.chapters import FRAMEWORKS, MAIN, Chapter
from tools.book.grammar import LINKS_CELL
from tools.book.notebooks import write_changed
from tools.book.recordings import read_recordings
from tools.book.repository import Repository
from tools.book.setup_cells import write_setup
from tools.errors import BookError
from tools.files import read_beside, read_text

PARTS = itemgetter("services", "sentence", "installs")
SERVICES, SENTENCE, INSTALLS = PARTS(read_beside(__file__, "services.yml"))
PIP = re.compile(r"git\+https?://\S+(?=#subdirectory=cudasim)")
TABLE = re.compile(r"(<!-- [\w -]*links -->\n).*?(<!-- end -->)", re.S)


class Link(NamedTuple):
    """One way to run a chapter."""

    label: str
    url: str
    advice: str  # what a reader does there


def notebook_links(path: str, repository: Repository) -> list[Link]:
    """The links of a notebook at a path of a repository, a link for each service that suits."""
    query = {"repo": repository.url, "branch": repository.branch}
    query["urlpath"] = f"lab/tree/{repository.name}/{path}"
    words = vars(repository) | {
        "path": path,
        "quoted_branch": quote(repository.branch, safe=""),
    }
    words["pull"] = urlencode(query, quote_via=quote, safe="")
    suit = [
        each for each in SERVICES if each.get("hub") in (None, bool(repository.hub))
    ]
    return [
        Link(each["label"], each["url"].format(**words), each["advice"])
        for each in suit
    ]


def services_row(
    path: str, repository: Repository, say: Callable[[str], str] = str
) -> str:
    links = notebook_links(path, repository)
    return ", ".join(f"[{say(link.label)}]({link.url})" for link in links)


def write_links(book: Book) -> list[str]:
    """Write all that depends on where the book is published, or nothing; returns what changed."""
    root, repository = book.root, book.repository
    pairs = [
        (old, linked_chapter(old, repository, root)) for old in book.chapters.values()
    ]
    chapters = {chapter.name: chapter for _, chapter in pairs}
    for recordings in read_recordings(root, chapters, book.runners).values():
        pairs += [(made, made.synced()) for made in recordings.values()]
    texts = {"README.md": readme_text(list(chapters.values()), repository, root)}
    address = f"git+{repository.url}@{repository.branch}"
    for name in INSTALLS:
        if (root / name).is_file():
            texts[name] = PIP.sub(address, read_text(root / name, root))
    return write_changed(pairs, root, texts)


def linked_chapter(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """The chapter with the row of links after its title, and its set-up, for `repository`. In
    another framework than PyTorch set-up and advice are its own, written by hand."""
    notebook = deepcopy(chapter.notebook)
    title, *others = (cell for cell in notebook.cells if cell.id != LINKS_CELL)
    sentence = SENTENCE
    for cell in (cell for cell in notebook.cells if cell.id == LINKS_CELL):
        if cell.cell_type != "markdown":
            raise BookError(
                f"{chapter.where}: a code cell has the id '{LINKS_CELL}'; rename it"
            )
        if chapter.framework != MAIN:
            sentence = cell.source.partition("\n\n")[2]
    text = f"Run this chapter: {services_row(chapter.where, repository)}.\n\n{sentence}"
    notebook.cells = [title, new_markdown_cell(text, id=LINKS_CELL), *others]
    chapter = Chapter(chapter.name, notebook)
    return (
        write_setup(chapter, repository, root) if chapter.framework == MAIN else chapter
    )


def readme_text(chapters: list[Chapter], repository: Repository, root: Path) -> str:
    text = read_text(root / "README.md", root)
    if not TABLE.search(text):
        raise BookError(
            "README.md: no '<!-- links -->' followed by '<!-- end -->'; add both lines"
        )
    rows, addresses = ["| Chapter | Run it on |", "|:--|:--|"], []
    for number, chapter in enumerate(chapters, start=1):
        links = notebook_links(chapter.where, repository)
        services = ", ".join(f"[{link.label}][{link.label} {number}]" for link in links)
        other = f", in {FRAMEWORKS[chapter.framework]}" * (chapter.framework != MAIN)
        rows.append(f"| [{chapter.title}{other}]({chapter.where}) | {services} |")
        addresses += [f"[{link.label} {number}]: {link.url}" for link in links]
    services = notebook_links("", repository)
    advice = " ".join(f"**{link.label}:** {link.advice}." for link in services)
    block = "\n".join([*rows, "", advice, "", *addresses]) + "\n"
    return TABLE.sub(lambda match: match[1] + block + match[2], text)
