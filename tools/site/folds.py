"""Folds: what is not on a chapter's path is one line until a reader opens it.

That is each section whose heading begins with `Deeper: `, and neighbouring cells with the tag
`hide-cell`, at the head of a chapter together with links, tabs' legend and set-up. A fold is a
native `<details>`; where a link or a search leads into one, `book/static/folds.js` opens it.
Without scripts and on paper a section is open.
"""

import re
from itertools import groupby, takewhile

from docutils import nodes
from sphinx.application import Sphinx

from tools.book.grammar import DEEPER, MACHINERY, SETUP
from tools.site import speech
from tools.site.assets import framed, load_where, part
from tools.site.speech import tr
from tools.site.tabs import is_cell


def setup(app: Sphinx) -> None:
    app.connect(
        "doctree-read", fold, priority=550
    )  # once tabs are gathered, before covers
    load_where(app, '<details class="deeper"', "folds.js")


def fold(app: Sphinx, doctree: nodes.document) -> None:
    texts = [*doctree.findall(nodes.paragraph)]
    for row in [
        text for text in texts if text.astext().startswith(tr("Run this chapter:"))
    ]:
        *_, download = row.findall(nodes.reference)
        # Of the page, or the same in another framework: as it was when this was built.
        download["refuri"] = (
            f"../_sources/notebooks/{download['refuri'].rpartition('/')[2]}"
        )
        head = row.parent.children[row.parent.index(row) :]
        head = [*takewhile(lambda node: is_machinery(node) or not opens(node), head)]
        while head[1:] and isinstance(
            head[-1], nodes.paragraph
        ):  # the first of the chapter's text
            head.pop()
        wrap(head, tr("Run this chapter: links and set-up"))
    for parent in dict.fromkeys(cell.parent for cell in doctree.findall(is_machinery)):
        for machinery, run in groupby([*parent.children], is_machinery):
            if machinery and not isinstance(parent, part):
                cells = [*run]
                wrap(
                    cells,
                    speech.punctuated("; ").join(dict.fromkeys(map(label, cells))),
                )
    for section in doctree.findall(nodes.section):
        # A heading needs its section around it.
        if section[0].astext().startswith((DEEPER, speech.deeper())):
            section.insert(1, part("", html="</summary>", end=""))
            section.insert(
                0, part("", html='<details class="deeper"><summary>', end="")
            )
            section.append(part("", html="</details>", end=""))


def wrap(run: list[nodes.Node], words: str) -> None:
    parent, place = run[0].parent, run[0].parent.index(run[0])
    for node in run:
        if MACHINERY in tags(node):
            node.attributes.pop(
                "hide_mode", None
            )  # else it would be a fold of its own, too
        for code in node[0].findall(nodes.literal_block) if is_cell(node) else ():
            code["language"] = "text"  # colours are thousands of parts of a page
    parent.insert(place, framed("fold.html", *run, label=words))


def label(cell: nodes.container) -> str:
    """What a cell is, in plain words: its own, or else by its code."""
    code = cell[0].astext()
    asserts = re.search(r"^assert ", code, re.M) and not re.search(
        r"^(def|class) ", code, re.M
    )
    kind = tr("What must hold") if asserts else tr("Helpers")
    return cell["cell_metadata"].get("mystnb", {}).get("code_prompt_show", kind)


def tags(node: nodes.Node) -> list[str]:
    return node["cell_metadata"].get("tags", []) if is_cell(node) else []


def is_machinery(node: nodes.Node) -> bool:
    return not {MACHINERY, SETUP}.isdisjoint(tags(node))


def opens(node: nodes.Node) -> bool:
    """Whether the chapter itself begins here."""
    return isinstance(node, nodes.section) or is_cell(node)
