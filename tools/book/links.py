"""Write what depends on where the book is published, for `python -m tools links`.

That is in every chapter a row of links, the setup, and the addresses of other pages, with the
recordings that carry the setup; and a table in `README.md`. Where a text says how to install
the simulator, the version is written too.
"""

import re
from copy import deepcopy

from nbformat.v4 import new_markdown_cell

from tools.book.addresses import absolute_links, with_texts
from tools.book.book import Book
from tools.book.chapters import FRAMEWORKS, Chapter
from tools.book.grammar import LINKS_CELL
from tools.book.notebooks import write_changed
from tools.book.recordings import read_recordings
from tools.book.repository import Repository, notebook_links, services_row
from tools.book.setup_cells import RETIRED, simulator_version, with_setup
from tools.errors import BookError
from tools.files import read_text

# What stands below the links of a chapter whose framework is simulated.
SENTENCE = (
    "Run the cell below first, and again after each restart of the kernel. On a machine without "
    "a GPU, two are simulated. To use the CPU alone, write `lab.start(simulate=False)`."
)
# The files that name the version of the simulator to install.
INSTALLS = (
    "book/testing.md",
    "cudasim/README.md",
    "cudasim/docs/ways-in.md",
    "cudasim/docs/other-devices.md",
    "cudasim/docs/other-projects.md",
    "cudasim/example/README.md",
    "cudasim/example/pyproject.toml",
)
# A version of the simulator: after `cudasim==` or `cudasim[test]==`, or in a tag's name.
VERSION = re.compile(r"(?<=\bcudasim)(\[\w+\])?(==|-)\d+\.\d+\.\d+")
TABLE = re.compile(r"(<!-- [\w -]*links -->\n).*?(<!-- end -->)", re.DOTALL)


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
    pairs += [(recording, recording.synced()) for recording in recordings]

    texts = {"README.md": readme_text(list(linked_chapters.values()), book)}
    for name in INSTALLS:
        if (book.root / name).is_file():
            text = read_text(book.root / name, book.root)
            texts[name] = with_version(text, simulator_version(book.root))
    return write_changed(pairs, book.root, texts)


def linked_chapter(chapter: Chapter, book: Book) -> Chapter:
    """Return the chapter with the row of links after its title, its setup and its addresses.

    Where no GPUs are simulated, the advice is written by hand.
    """
    title, *others = [cell for cell in chapter.notebook.cells if cell.id != LINKS_CELL]
    row = services_row(chapter.where, book.repository)
    text = f"Run this chapter: {row}.\n\n{_advice(chapter)}"
    notebook = deepcopy(chapter.notebook)
    notebook.cells = [title, new_markdown_cell(text, id=LINKS_CELL), *others]
    linked = with_texts(
        Chapter(chapter.name, notebook),
        lambda text: absolute_links(text, chapter.page_name, book.repository),
    )
    return with_setup(linked, book.repository, book.root)


def _advice(chapter: Chapter) -> str:
    """Return what stands below the links of a chapter."""
    advice = SENTENCE
    for cell in chapter.notebook.cells:
        if cell.id != LINKS_CELL:
            continue
        if cell.cell_type != "markdown":
            raise BookError(
                chapter.where, f"a code cell has the id '{LINKS_CELL}'", "rename it"
            )
        if chapter.framework == RETIRED:
            advice = cell.source.partition("\n\n")[2]
    return advice


def readme_text(chapters: list[Chapter], book: Book) -> str:
    """Return `README.md` with a row for each page: its title, and links to Colab."""
    text = read_text(book.root / "README.md", book.root)
    if not TABLE.search(text):
        raise BookError(
            "README.md",
            "no '<!-- links -->' followed by '<!-- end -->'",
            "add both lines",
        )

    rows = ["| Chapter | Open in Colab |", "|:--|:--|"]
    for chapter in chapters:
        if chapter.page_name != chapter.name:
            continue  # it stands in the row of its page
        on_page = [other for other in chapters if other.page_name == chapter.name]
        links = [colab_link(other, book.repository) for other in on_page]
        address = f"{book.repository.site}notebooks/{chapter.name}.html"
        rows.append(f"| [{chapter.title}]({address}) | {', '.join(links)} |")
    block = "\n".join(rows) + "\n"
    text = TABLE.sub(lambda match: match[1] + block + match[2], text)
    return with_version(text, simulator_version(book.root))


def with_version(text: str, version: str) -> str:
    """Return the text with this version of the simulator wherever one is named."""
    return VERSION.sub(lambda match: f"{match[1] or ''}{match[2]}{version}", text)


def colab_link(chapter: Chapter, repository: Repository) -> str:
    """Return the Markdown of a link that opens a notebook in Colab."""
    colab = notebook_links(chapter.where, repository)[0]
    return f"[{FRAMEWORKS[chapter.framework]}]({colab.url})"
