"""The page *Symptom, cause, cure*: a search box and the list of all symptoms at its top.

`tools.book.symptoms` says what the page is made of. `book/static/symptoms.js` filters it.
"""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx

from tools.book.chapters import Chapter
from tools.book.symptoms import groups_of
from tools.site.assets import add_part, load_where
from tools.site.templates import render


def setup(app: Sphinx) -> None:
    add_part(app, "symptom-search", lambda env: render("symptom-search.html"))
    load_where(
        app, '<form class="symptom-search"', "symptoms.css", "symptoms.js", defer=True
    )


def overview(chapter: Chapter) -> NotebookNode:
    lines = ["```{symptom-search}", "```", "", ":::{container} symptom-list", ""]
    for group, symptoms in groups_of(chapter).items():
        lines.append(f"- {_link(group)}")
        lines += [
            f"  - {_link(each.title)}{' *quoted*' * each.quoted}" for each in symptoms
        ]
    return new_markdown_cell("\n".join([*lines, "", ":::"]), id="overview")


def _link(title: str) -> str:
    anchor = re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))
    return f"[{title}](#{anchor})"
