"""The row of links on the page of each chapter: where a reader can run it."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

from tools.book.links import launch_links
from tools.book.repository import read_repository
from tools.errors import BookError

RUN = "Run this chapter:"


class launch_row(nodes.General, nodes.Element):
    """The links of a chapter on its page: a list, for which readers' programs have a name."""


def setup(app: Sphinx) -> None:
    app.add_node(launch_row, html=(visit_row, depart_row))
    app.connect("doctree-read", draw_row)
    app.add_css_file("launch.css")


def draw_row(app: Sphinx, doctree: nodes.document) -> None:
    """Turn a chapter's sentence of links into a list, its download into a local one.

    What is downloaded from the site is the chapter as it was when the site was built.
    """
    folder, _, name = app.env.docname.partition("/")
    if folder != "notebooks":
        return
    rows = [row for row in doctree.findall(nodes.paragraph) if row.astext().startswith(RUN)]
    try:
        *services, download = launch_links(name, read_repository(Path(app.srcdir)))
    except BookError as error:
        raise ExtensionError(str(error)) from None
    if not rows:
        raise ExtensionError(
            f"notebooks/{name}.ipynb: no row of links; write it with 'python -m tools links'"
        )
    uris = {link.label: link.url for link in services}
    uris[download.label] = f"../_sources/notebooks/{name}.ipynb"
    items = nodes.bullet_list()
    for label, uri in uris.items():
        text = nodes.paragraph("", "", nodes.reference("", label, refuri=uri))
        items += nodes.list_item("", text)
    rows[0].replace_self(launch_row("", items))


def visit_row(writer: HTML5Translator, node: launch_row) -> None:
    writer.body.append(
        f'<nav class="launch" aria-label="Run this chapter">\n<p aria-hidden="true">{RUN}</p>\n'
    )


def depart_row(writer: HTML5Translator, node: launch_row) -> None:
    writer.body.append("</nav>\n")
