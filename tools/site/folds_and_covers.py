"""Folds for what is off the path of a page, and covers for the answers of predictions.

A fold is one line until a reader opens it. There is one around each section whose heading
begins with `Deeper: `, and one around neighbouring cells with the tag `hide-cell`; at the
head of a chapter it holds the links, the legend of the tabs and the set-up, too.

A cover hides what answers a prediction, the output and the words, until the reader asks
for it. Above the first prediction is a switch for all.

Both are native `<details>`, which need no JavaScript. `book/static/folds.js` opens a fold
that a link or a search leads into; `book/static/predictions.js` makes buttons of the
choices, says whether one was right, and keeps it. Paper shows everything.
"""

import re
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx

from tools.book.grammar import DEEPER, MACHINERY, PREDICTED, SETUP, right_choice
from tools.site.languages import punctuated, spoken, tr
from tools.site.outputs import OUTPUT_BOX
from tools.site.parts import Part, frame, html_part, load_where, render


def setup(app: Sphinx) -> None:
    # After tabs (500) have been taken out of their boxes: covers move them.
    app.connect("doctree-read", add_folds, priority=550)
    app.connect("doctree-read", add_covers, priority=600)
    load_where(app, '<details class="deeper"', "folds.js")
    load_where(app, '<details class="covered"', "predictions.css", "predictions.js")


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def tags(node: nodes.Node) -> list[str]:
    return node["cell_metadata"].get("tags", []) if is_cell(node) else []


def is_machinery(node: nodes.Node) -> bool:
    return MACHINERY in tags(node) or SETUP in tags(node)


# Folds.


def add_folds(app: Sphinx, doctree: nodes.document) -> None:
    fold_head(doctree)
    fold_machinery(doctree)
    for section in doctree.findall(nodes.section):
        if section[0].astext().startswith((DEEPER, spoken().deeper)):
            fold_section(section)


def fold_head(doctree: nodes.document) -> None:
    """Fold the links and the set-up at the head of the chapter, once for each framework."""
    paragraphs = [*doctree.findall(nodes.paragraph)]
    for paragraph in paragraphs:
        if paragraph.astext().startswith(tr("Run this chapter:")):
            link_download(paragraph)
            fold(nodes_of_head(paragraph), tr("Run this chapter: links and set-up"))


def link_download(links: nodes.paragraph) -> None:
    """Point the last link to the notebook as it was when the site was built."""
    *_, download = links.findall(nodes.reference)
    name = download["refuri"].rpartition("/")[2]
    download["refuri"] = f"../_sources/notebooks/{name}"


def nodes_of_head(links: nodes.paragraph) -> list[nodes.Node]:
    """Return what stands from the row of links on, before the chapter itself begins."""
    head = []
    for node in links.parent.children[links.parent.index(links) :]:
        begins = isinstance(node, nodes.section) or is_cell(node)
        if begins and not is_machinery(node):
            break
        head.append(node)
    # Paragraphs at its end are the first of the chapter's text.
    while len(head) > 1 and isinstance(head[-1], nodes.paragraph):
        head.pop()
    return head


def fold_machinery(doctree: nodes.document) -> None:
    """Fold each run of neighbouring cells that the path passes by."""
    cells = doctree.findall(is_machinery)
    parents = dict.fromkeys(cell.parent for cell in cells)
    for parent in parents:
        if isinstance(parent, Part):  # they are in a fold
            continue
        for is_run, run in groupby([*parent.children], is_machinery):
            if is_run:
                run = [*run]
                labels = dict.fromkeys(label(cell) for cell in run)
                fold(run, punctuated("; ").join(labels))


def fold_section(section: nodes.section) -> None:
    """Fold all of a section but its heading, which needs the section around it."""
    section.insert(1, html_part("</summary>"))
    section.insert(0, html_part('<details class="deeper"><summary>'))
    section.append(html_part("</details>"))


def fold(run: list[nodes.Node], words: str) -> None:
    parent = run[0].parent
    index = parent.index(run[0])
    for node in run:
        if MACHINERY in tags(node):
            # MyST-NB would make another fold of the cell.
            node.attributes.pop("hide_mode", None)
        if is_cell(node):
            # Colours would be thousands of elements of the page.
            for code in node[0].findall(nodes.literal_block):
                code["language"] = "text"
    parent.insert(index, frame("fold.html", *run, label=words))


def label(cell: nodes.container) -> str:
    """Return what a folded cell is in plain words: its author's, or a guess by its code."""
    written_label = cell["cell_metadata"].get("mystnb", {}).get("code_prompt_show")
    if written_label is not None:
        return written_label
    code = cell[0].astext()
    asserts = re.search(r"^assert ", code, re.MULTILINE)
    defines = re.search(r"^(def|class) ", code, re.MULTILINE)
    return tr("What must hold") if asserts and not defines else tr("Helpers")


# Covers.


def add_covers(app: Sphinx, doctree: nodes.document) -> None:
    """Box each prediction and cover its answer."""
    cells = [*doctree.findall(is_predicted)]
    if cells:
        add_switch(cells[0])
    for cell in cells:
        box_question(cell)
        cover_answer(cell)


def is_predicted(node: nodes.Node) -> bool:
    return is_cell(node) and PREDICTED in node["cell_metadata"]


def add_switch(cell: nodes.container) -> None:
    """Put the switch for all covers above the first prediction."""
    below = [*question(cell), cell][0]
    # A block of one framework may hold it, but the switch is for all.
    while not isinstance(below.parent, nodes.section):
        below = below.parent
    switch = html_part(render("prediction-switch.html"))
    below.parent.insert(below.parent.index(below), switch)


def box_question(cell: nodes.container) -> None:
    text = (nodes.paragraph, nodes.bullet_list)
    asked = [node for node in question(cell) if isinstance(node, text)]
    box = frame("prediction.html", *asked)
    cell.parent.insert(cell.parent.index(cell), box)


def question(cell: nodes.container) -> list[nodes.Node]:
    """Return the question above a cell: a paragraph, and the list of its choices."""
    above = cell.parent.children[: cell.parent.index(cell)]
    if above and isinstance(above[-1], nodes.bullet_list):
        return above[-2:]
    return above[-1:]


def cover_answer(cell: nodes.container) -> None:
    printed = [node for node in cell if is_output(node)]
    explained = explanation(cell)
    right = None
    if explained:
        right = right_choice(explained[0].astext(), spoken().choices)
    name = f"printed-{cell['cell_metadata'][PREDICTED]}"
    cell += frame("covered.html", *printed, *explained, name=name, right=right)


def is_output(node: nodes.Node) -> bool:
    return isinstance(node, Part) or node.get("nb_element") == OUTPUT_BOX


def explanation(cell: nodes.container) -> list[nodes.Node]:
    """Return the answer in words below a cell, and the fold between, if there is one."""
    index = cell.parent.index(cell)
    below = cell.parent.children[index + 1 : index + 3]
    for number, node in enumerate(below):
        if "answer" in node.get("classes", []):
            return [node, *below[:number]]
    return []
