"""The row of links on the page of each chapter: where a reader can run it."""

from itertools import zip_longest
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from tools.book.book import Book
from tools.book.links import launch_links
from tools.errors import BookError
from tools.site.assets import framed
from tools.site.extension import read_pages


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", draw_row)
    app.add_css_file("launch.css")


def draw_row(app: Sphinx, doctree: nodes.document) -> None:
    """Turn a chapter's sentence of links into a list, its download into a local one.

    What is downloaded from the site is the chapter as it was when the site was built.
    """
    folder, _, page = app.env.docname.partition("/")
    if folder != "notebooks":
        return
    book, _ = read_pages(Path(app.srcdir))
    paragraphs = [*doctree.findall(nodes.paragraph)]
    rows = [row for row in paragraphs if row.astext().startswith("Run this chapter:")]
    for chapter, row in zip_longest(book.editions(page), rows):
        if row is None:
            advice = "no row of links; write it with 'python -m tools links'"
            raise BookError(f"{chapter.where}: {advice}")
        row.replace_self(drawn_row(chapter.name, book))


def drawn_row(name: str, book: Book) -> nodes.Node:
    *services, download = launch_links(name, book.repository)
    uris = {link.label: link.url for link in services}
    uris[download.label] = f"../_sources/notebooks/{name}.ipynb"
    items = nodes.bullet_list()
    for label, uri in uris.items():
        text = nodes.paragraph("", "", nodes.reference("", label, refuri=uri))
        items += nodes.list_item("", text)
    return framed("launch.html", items)
