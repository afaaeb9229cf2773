"""Where readers run a chapter: links to services, from the one place that names the repository.

`python -m tools links` writes what depends on that place: a row of links and the set-up into
every chapter, with the recordings that carry them, a table into `README.md`, and an address for
pip where a text says how to install the simulator.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
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

SETTINGS = read_beside(__file__, "services.yml")
SENTENCE = SETTINGS["sentence"]  # stands below the links
INSTALLS = SETTINGS["installs"]  # files that say how to install the simulator
PIP = re.compile(r"git\+https?://\S+(?=#subdirectory=cudasim)")
TABLE = re.compile(r"(<!-- [\w -]*links -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Service:
    """A service that runs notebooks of a repository on GitHub."""

    label: str
    url: str  # with names in braces for the parts of the address
    advice: str  # what a reader does there
    hub: bool | None = None  # offered only where a hub is known, or only where none is
    translated: bool = False  # whether the label has words of a language


SERVICES = [Service(**entry) for entry in SETTINGS["services"]]


@dataclass(frozen=True)
class Link:
    """One way to run a chapter."""

    label: str
    url: str
    advice: str


def notebook_links(path: str, repository: Repository) -> list[Link]:
    """Return the links of a notebook in a repository, one for each service that suits."""
    pull = {
        "repo": repository.url,
        "branch": repository.branch,
        "urlpath": f"lab/tree/{repository.name}/{path}",
    }
    links = []
    for service in SERVICES:
        if service.hub is not None and service.hub != bool(repository.hub):
            continue
        url = service.url.format(
            path=path,
            owner=repository.owner,
            name=repository.name,
            branch=repository.branch,
            quoted_branch=quote(repository.branch, safe=""),
            hub=repository.hub,
            pull=urlencode(pull, quote_via=quote, safe=""),
        )
        links.append(Link(service.label, url, service.advice))
    return links


def services_row(
    path: str, repository: Repository, say: Callable[[str], str] = str
) -> str:
    """Return the row of links in a chapter; `say` translates their labels."""
    links = notebook_links(path, repository)
    return ", ".join(f"[{say(link.label)}]({link.url})" for link in links)


def write_links(book: Book) -> list[str]:
    """Write all that depends on where the book is published, or nothing.

    Returns the paths that changed.
    """
    pairs = []
    linked_chapters = {}
    for chapter in book.chapters.values():
        linked = linked_chapter(chapter, book)
        linked_chapters[chapter.name] = linked
        pairs.append((chapter, linked))
    recordings = read_recordings(book.root, linked_chapters, book.runners)
    for by_chapter in recordings.values():
        for recording in by_chapter.values():
            pairs.append((recording, recording.synced()))

    texts = {"README.md": readme_text(list(linked_chapters.values()), book)}
    for name in INSTALLS:
        if (book.root / name).is_file():
            text = read_text(book.root / name, book.root)
            texts[name] = PIP.sub(pip_address(book.repository), text)
    return write_changed(pairs, book.root, texts)


def linked_chapter(chapter: Chapter, book: Book) -> Chapter:
    """Return the chapter with the row of links after its title, and its set-up.

    In another framework than PyTorch set-up and advice are its own, written by hand.
    """
    notebook = deepcopy(chapter.notebook)
    sentence = SENTENCE
    for cell in notebook.cells:
        if cell.id != LINKS_CELL:
            continue
        if cell.cell_type != "markdown":
            words = f"a code cell has the id '{LINKS_CELL}'"
            raise BookError(f"{chapter.where}: {words}; rename it")
        if chapter.framework != MAIN:
            sentence = cell.source.partition("\n\n")[2]

    row = services_row(chapter.where, book.repository)
    text = f"Run this chapter: {row}.\n\n{sentence}"
    title, *others = [cell for cell in notebook.cells if cell.id != LINKS_CELL]
    notebook.cells = [title, new_markdown_cell(text, id=LINKS_CELL), *others]
    linked = Chapter(chapter.name, notebook)
    if chapter.framework != MAIN:
        return linked
    return write_setup(linked, book.repository, book.root)


def readme_text(chapters: list[Chapter], book: Book) -> str:
    """Return `README.md` with a row for each page: its title, and links to Colab."""
    text = read_text(book.root / "README.md", book.root)
    if not TABLE.search(text):
        missing = "no '<!-- links -->' followed by '<!-- end -->'"
        raise BookError(f"README.md: {missing}; add both lines")

    rows = ["| Chapter | Open in Colab |", "|:--|:--|"]
    for chapter in chapters:
        if chapter.page != chapter.name:
            continue  # it stands in the row of its page
        editions = [other for other in chapters if other.page == chapter.name]
        links = [colab_link(edition, book.repository) for edition in editions]
        page = f"{book.repository.site}notebooks/{chapter.name}.html"
        rows.append(f"| [{chapter.title}]({page}) | {', '.join(links)} |")
    block = "\n".join(rows) + "\n"
    text = TABLE.sub(lambda match: match[1] + block + match[2], text)
    return PIP.sub(pip_address(book.repository), text)


def pip_address(repository: Repository) -> str:
    return f"git+{repository.url}@{repository.branch}"


def colab_link(chapter: Chapter, repository: Repository) -> str:
    """Return the Markdown of a link that opens a notebook in Colab."""
    colab = notebook_links(chapter.where, repository)[0]
    return f"[{FRAMEWORKS[chapter.framework]}]({colab.url})"
