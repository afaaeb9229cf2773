"""The page *Symptom, cause, cure*: a search box and the list of all symptoms at its top.

`tools.rules.symptoms` says what the page is made of. `book/static/symptoms.js` filters it.
"""

import re
from typing import TYPE_CHECKING

from docutils import nodes
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.util.docutils import SphinxDirective

from tools.book.chapters import Chapter
from tools.rules.symptoms import groups_of
from tools.site.assets import load_where

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


class symptom_search(nodes.General, nodes.Element):
    """The search box, and the line that says how many symptoms there are."""


class SymptomSearch(SphinxDirective):
    """`symptom-search`: the box, at this place of a page."""

    def run(self) -> list[nodes.Node]:
        """Place it."""
        return [symptom_search("")]


def setup(app: "Sphinx") -> dict[str, bool]:
    """Let a page hold the search box, and load its script and style on that page only."""
    app.add_node(symptom_search, html=(visit_search, None))
    app.add_directive("symptom-search", SymptomSearch)
    load_where(app, '<form class="symptom-search"', "symptoms.css", "symptoms.js", defer=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def overview(chapter: Chapter) -> NotebookNode:
    """The cell for the top of the page: the search box, and links to the symptoms by group."""
    lines = ["```{symptom-search}", "```", "", ":::{container} symptom-list", ""]
    for group, symptoms in groups_of(chapter).items():
        lines.append(f"- {_link(group)}")
        lines += [f"  - {_link(symptom.title)}" for symptom in symptoms]
    return new_markdown_cell("\n".join([*lines, "", ":::"]), id="overview")


def _link(title: str) -> str:
    """A link to the heading of that title on the same page."""
    anchor = re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
    return f"[{title}](#{anchor})"


def visit_search(writer: "HTML5Translator", node: symptom_search) -> None:
    """Write the form of `book/templates/symptom-search.html`."""
    writer.body.append(writer.builder.templates.render("symptom-search.html", {}))
    raise nodes.SkipNode
