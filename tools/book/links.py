"""Where readers run a chapter: links to services, from the one place that names the repository.

`python -m tools links` writes what depends on that place: a row of links and the set-up into
every chapter, with the recordings that carry them, a table into `README.md`, and an address for
pip where a text says how to install the simulator.
"""

import re
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

import yaml
from nbformat.v4 import new_markdown_cell

from tools.book.book import Book
from tools.book.chapters import FRAMEWORKS, MAIN, Chapter
from tools.book.notebooks import notebook_text
from tools.book.recordings import read_recordings
from tools.book.repository import Repository
from tools.book.setup_cells import write_setup
from tools.errors import BookError
from tools.files import read_text, write_files

SERVICES = yaml.safe_load(Path(__file__).with_name("services.yml").read_text(encoding="utf-8"))
CELL = "links"  # id of the cell that holds a chapter's row of links
# Files that say how to install the simulator from the repository.
INSTALLS = (
    "book/testing.md",
    "cudasim/README.md",
    "cudasim/example/README.md",
    "cudasim/example/.github/workflows/tests.yml",
)
PIP = re.compile(r"git\+https?://\S+(?=#subdirectory=cudasim)")
TABLE = re.compile(r"(<!-- [\w -]*links -->\n).*?(<!-- end -->)", re.S)

SENTENCE = (
    "Run the two cells below first, and again after a restart of the kernel. A machine without a "
    "GPU gets two simulated ones; `SIMULATE_GPUS = False` leaves it the CPU alone."
)


class Link(NamedTuple):
    """One way to run a chapter: what it is called, where it leads, what a reader does there."""

    label: str
    url: str
    advice: str


def launch_links(chapter: str, repository: Repository) -> list[Link]:
    return notebook_links(f"notebooks/{chapter}.ipynb", repository)


def notebook_links(path: str, repository: Repository) -> list[Link]:
    """The links of a notebook at a path of a repository, a link for each service that suits."""
    query = {"repo": repository.url, "branch": repository.branch}
    query["urlpath"] = f"lab/tree/{repository.name}/{path}"
    words = vars(repository) | {
        "path": path,
        "quoted_branch": quote(repository.branch, safe=""),
        "pull": urlencode(query, quote_via=quote, safe=""),
    }
    return [
        Link(service["label"], service["url"].format(**words), service["advice"])
        for service in SERVICES
        if service.get("hub") in (None, bool(repository.hub))
    ]


def services_row(path: str, repository: Repository) -> str:
    links = notebook_links(path, repository)
    return ", ".join(f"[{link.label}]({link.url})" for link in links)


def write_links(book: Book) -> list[str]:
    """Write all that depends on where the book is published, or nothing; returns what changed."""
    root, repository = book.root, book.repository
    pairs = [(old, linked_chapter(old, repository, root)) for old in book.chapters.values()]
    chapters = {chapter.name: chapter for _, chapter in pairs}
    for recordings in read_recordings(root, chapters, book.runners).values():
        pairs += [(made, made.synced()) for made in recordings.values()]
    files = {
        new.where: notebook_text(new.notebook) for old, new in pairs if new.notebook != old.notebook
    }
    texts = {"README.md": readme_text(list(chapters.values()), repository, root)}
    address = f"git+{repository.url}@{repository.branch}"
    for name in INSTALLS:
        if (root / name).is_file():
            texts[name] = PIP.sub(address, read_text(root / name, root))
    files |= {name: text for name, text in texts.items() if text != read_text(root / name, root)}
    write_files({root / where: text for where, text in files.items()}, root)
    return list(files)


def linked_chapter(chapter: Chapter, repository: Repository, root: Path) -> Chapter:
    """The chapter with the row of links after its title, and its set-up, for `repository`. In
    another framework than PyTorch set-up and advice are its own, written by hand."""
    notebook = deepcopy(chapter.notebook)
    if any(cell.id == CELL and cell.cell_type != "markdown" for cell in notebook.cells):
        raise BookError(f"{chapter.where}: a code cell has the id '{CELL}'; rename it")
    own = [cell.source.partition("\n\n")[2] for cell in notebook.cells if cell.id == CELL]
    sentence = own[0] if own and chapter.framework != MAIN else SENTENCE
    notebook.cells = [cell for cell in notebook.cells if cell.id != CELL]
    row = services_row(chapter.where, repository)
    text = f"Run this chapter: {row}.\n\n{sentence}"
    notebook.cells.insert(1, new_markdown_cell(text, id=CELL))
    chapter = Chapter(chapter.name, notebook)
    return write_setup(chapter, repository, root) if chapter.framework == MAIN else chapter


def readme_text(chapters: list[Chapter], repository: Repository, root: Path) -> str:
    text = read_text(root / "README.md", root)
    if not TABLE.search(text):
        raise BookError("README.md: no '<!-- links -->' followed by '<!-- end -->'; add both lines")
    rows, addresses = ["| Chapter | Run it on |", "|:--|:--|"], []
    for number, chapter in enumerate(chapters, start=1):
        links = launch_links(chapter.name, repository)
        services = ", ".join(f"[{link.label}][{link.label} {number}]" for link in links)
        other = f", in {FRAMEWORKS[chapter.framework]}" * (chapter.framework != MAIN)
        rows.append(f"| [{chapter.title}{other}]({chapter.where}) | {services} |")
        addresses += [f"[{link.label} {number}]: {link.url}" for link in links]
    services = launch_links("", repository)
    advice = " ".join(f"**{link.label}:** {link.advice}." for link in services)
    block = "\n".join([*rows, "", advice, "", *addresses]) + "\n"
    return TABLE.sub(lambda match: match[1] + block + match[2], text)
