"""The row of links on the page of each chapter: where a reader can run it."""

from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.errors import ExtensionError

from tools.book.links import launch_links
from tools.book.repository import read_repository
from tools.errors import BookError

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class launch_row(nodes.General, nodes.Element):
    """The links of a chapter on its page: a list, for which readers' programs have a name."""


def setup(app: "Sphinx") -> dict[str, bool]:
    """Draw the row of every chapter's page."""
    app.add_node(launch_row, html=(visit_row, depart_row))
    app.connect("doctree-read", draw_row)
    app.add_css_file("launch.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def draw_row(app: "Sphinx", doctree: nodes.document) -> None:
    """Turn the sentence that holds a chapter's links into a list, its download into a local one.

    What is downloaded from the site is the chapter as it was when the site was built.
    """
    folder, _, name = app.env.docname.partition("/")
    if folder != "notebooks":
        return
    try:
        links = launch_links(name, read_repository(Path(app.srcdir)))
    except BookError as error:
        raise ExtensionError(str(error)) from None
    for paragraph in doctree.findall(nodes.paragraph):
        # MyST writes &amp; into addresses.
        found = [unescape(link.get("refuri", "")) for link in paragraph.findall(nodes.reference)]
        if found == [link.url for link in links]:
            break
    else:
        raise ExtensionError(
            f"notebooks/{name}.ipynb: no row of the links that _config.yml asks for; "
            "write it with 'make links'"
        )
    items = nodes.bullet_list()
    for link in links:
        local = f"../_sources/notebooks/{name}.ipynb"
        uri = local if link is links[-1] else link.url
        text = nodes.paragraph("", "", nodes.reference("", link.label, refuri=uri))
        items += nodes.list_item("", text)
    paragraph.replace_self(launch_row("", items))


def visit_row(writer: "HTML5Translator", node: launch_row) -> None:
    """Open the list; what is in it writes itself."""
    writer.body.append('<nav class="launch" aria-label="Run this chapter">\n')
    writer.body.append('<p aria-hidden="true">Run this chapter:</p>\n')


def depart_row(writer: "HTML5Translator", node: launch_row) -> None:
    """Close it."""
    writer.body.append("</nav>\n")
