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
from tools.book.notebooks import write_changed
from tools.book.recordings import read_recordings
from tools.book.repository import Repository
from tools.book.setup_cells import write_setup
from tools.errors import BookError
from tools.files import read_beside, read_text

PARTS = itemgetter("services", "sentence", "installs")
SERVICES, SENTENCE, INSTALLS = PARTS(read_beside(__file__, "services.yml"))
CELL = "links"  # id of the cell that holds a chapter's row of links
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
    for name in INSTALLS:
        if (root / name).is_file():
            text = read_text(root / name, root)
            texts[name] = PIP.sub(pip_address(repository), text)
    return write_changed(pairs, root, texts)


def linked_chapter(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """The chapter with the row of links after its title, and its set-up, for `repository`. In
    another framework than PyTorch set-up and advice are its own, written by hand."""
    notebook = deepcopy(chapter.notebook)
    title, *others = (cell for cell in notebook.cells if cell.id != CELL)
    sentence = SENTENCE
    for cell in (cell for cell in notebook.cells if cell.id == CELL):
        if cell.cell_type != "markdown":
            raise BookError(
                f"{chapter.where}: a code cell has the id '{CELL}'; rename it"
            )
        if chapter.framework != MAIN:
            sentence = cell.source.partition("\n\n")[2]
    text = f"Run this chapter: {services_row(chapter.where, repository)}.\n\n{sentence}"
    notebook.cells = [title, new_markdown_cell(text, id=CELL), *others]
    chapter = Chapter(chapter.name, notebook)
    return (
        write_setup(chapter, repository, root) if chapter.framework == MAIN else chapter
    )


def readme_text(chapters: list[Chapter], repository: Repository, root: Path) -> str:
    """Return `README.md` with a row for each page: its title, and links to Colab."""
    text = read_text(root / "README.md", root)
    if not TABLE.search(text):
        advice = "add both lines"
        raise BookError(
            f"README.md: no '<!-- links -->' followed by '<!-- end -->'; {advice}"
        )
    rows = ["| Chapter | Open in Colab |", "|:--|:--|"]
    for chapter in chapters:
        if chapter.page != chapter.name:
            continue
        editions = [other for other in chapters if other.page == chapter.name]
        links = [colab_link(edition, repository) for edition in editions]
        page = f"{repository.site}notebooks/{chapter.name}.html"
        rows.append(f"| [{chapter.title}]({page}) | {', '.join(links)} |")
    block = "\n".join(rows) + "\n"
    text = TABLE.sub(lambda match: match[1] + block + match[2], text)
    return PIP.sub(pip_address(repository), text)


def pip_address(repository: Repository) -> str:
    return f"git+{repository.url}@{repository.branch}"


def colab_link(chapter: Chapter, repository: Repository) -> str:
    """Return the Markdown of a link that opens a notebook in Colab."""
    colab = notebook_links(chapter.where, repository)[0]
    return f"[{FRAMEWORKS[chapter.framework]}]({colab.url})"
