"""Folds for what is off the path of a page, and covers for the answers of predictions.

A fold is one line until a reader opens it. There is one around each section whose heading
begins with `Deeper: `, and one around neighbouring cells with the tag `hide-cell`; at the
head of a chapter it holds the links, the legend of the tabs and the setup, too.

A cover hides what answers a prediction until the reader asks for it: the output, the words, and
all that follows up to the next heading.

Cells with the tag `checks` are in folds of their own, which a reader who has not asked for them
does not see. Above the first prediction or check are the switches for all covers and for checks.

All are native `<details>`, which need no JavaScript. `book/static/folds.js` opens a fold that a
link or a search leads into; `book/static/predictions.js` makes buttons of the choices, says
whether one was right, and keeps it; `book/static/checks.js` hides the checks or shows them.
Paper shows everything but checks.
"""

import re
from itertools import groupby

from docutils import nodes
from sphinx.application import Sphinx

from tools.book.grammar import (
    CHECKS,
    DEEPER,
    MACHINERY,
    PREDICTED,
    SETUP,
    right_choice,
)
from tools.site.languages import punctuated, spoken, tr
from tools.site.outputs import OUTPUT_BOX
from tools.site.parts import Part, frame, html_part, load_where, render

# The class of what a cell printed, where that is under a cover and not in the cell's own box.
COVERED = "covered-outputs"


def setup(app: Sphinx) -> None:
    # After tabs (500) have been taken out of their boxes: covers move them.
    app.connect("doctree-read", add_folds, priority=550)
    app.connect("doctree-read", add_covers, priority=600)
    load_where(app, '<details class="deeper"', "folds.js")
    load_where(app, '<p class="switches"', "predictions.css")
    load_where(app, '<details class="covered"', "predictions.js")
    load_where(app, '<details class="machinery checks"', "checks.js")


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def tags(node: nodes.Node) -> list[str]:
    return node["cell_metadata"].get("tags", []) if is_cell(node) else []


def is_checks(node: nodes.Node) -> bool:
    return CHECKS in tags(node)


def is_machinery(node: nodes.Node) -> bool:
    return is_checks(node) or MACHINERY in tags(node) or SETUP in tags(node)


# Folds.


def add_folds(app: Sphinx, doctree: nodes.document) -> None:
    fold_head(doctree)
    fold_machinery(doctree)
    for section in doctree.findall(nodes.section):
        if section[0].astext().startswith((DEEPER, spoken().deeper)):
            fold_section(section)


def fold_head(doctree: nodes.document) -> None:
    """Fold the links and the setup at the head of the chapter, once for each framework."""
    paragraphs = [*doctree.findall(nodes.paragraph)]
    for paragraph in paragraphs:
        if paragraph.astext().startswith(tr("Run this chapter:")):
            link_download(paragraph)
            fold(nodes_of_head(paragraph), tr("Run this chapter: links and setup"))


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
        if begins and (not is_machinery(node) or is_checks(node)):
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
        for kind, run in groupby([*parent.children], kind_of_fold):
            if kind == CHECKS:
                fold([*run], tr("Checks"), "checks.html")
            elif kind == MACHINERY:
                run = [*run]
                labels = dict.fromkeys(label(cell) for cell in run)
                fold(run, punctuated("; ").join(labels))


def kind_of_fold(node: nodes.Node) -> str | None:
    """Return the tag by which a cell is folded together with its neighbours, if it is."""
    if is_checks(node):
        return CHECKS
    return MACHINERY if is_machinery(node) else None


def fold_section(section: nodes.section) -> None:
    """Fold all of a section but its heading, which needs the section around it."""
    section.insert(1, html_part("</summary>"))
    section.insert(0, html_part('<details class="deeper"><summary>'))
    section.append(html_part("</details>"))


def fold(run: list[nodes.Node], words: str, template: str = "fold.html") -> None:
    parent = run[0].parent
    index = parent.index(run[0])
    for node in run:
        if is_machinery(node):
            # MyST-NB would make another fold of the cell.
            node.attributes.pop("hide_mode", None)
        if is_cell(node):
            # Colours would be thousands of elements of the page.
            for code in node[0].findall(nodes.literal_block):
                code["language"] = "text"
    parent.insert(index, frame(template, *run, label=words))


def label(cell: nodes.container) -> str:
    """Return what a folded cell is in plain words: its author's, or a guess by its code."""
    written_label = cell["cell_metadata"].get("mystnb", {}).get("code_prompt_show")
    if written_label is not None:
        return written_label
    code = cell[0].astext()
    asserts = re.search(r"^assert ", code, re.MULTILINE)
    defines = re.search(r"^(def|class) ", code, re.MULTILINE)
    return tr("Checks") if asserts and not defines else tr("Helper code")


# Covers.


def add_covers(app: Sphinx, doctree: nodes.document) -> None:
    """Box each prediction and cover its answer; put the switches above the first of them."""
    cells = [*doctree.findall(is_predicted)]
    checks = [*doctree.findall(is_fold_of_checks)]
    places = [place(cell) for cell in cells] + checks
    if places:
        order = [*doctree.findall()]
        add_switches(min(places, key=order.index), bool(cells), bool(checks))
    for cell in cells:
        box_question(cell)
        cover_answer(cell)


def is_predicted(node: nodes.Node) -> bool:
    return is_cell(node) and PREDICTED in node["cell_metadata"]


def is_fold_of_checks(node: nodes.Node) -> bool:
    return isinstance(node, Part) and any(is_checks(child) for child in node)


def place(cell: nodes.container) -> nodes.Node:
    """Return where a prediction begins: with its question."""
    return [*question(cell), cell][0]


def add_switches(below: nodes.Node, answers: bool, checks: bool) -> None:
    """Put the switches for all covers and for all checks above a node."""
    # A block of one framework, or a fold, may hold it, but the switches are for all.
    above = below
    while above.parent is not None:
        above = above.parent
        if isinstance(above, nodes.section) and isinstance(above[0], Part):
            below = above  # a section that is folded begins so
    while not isinstance(below.parent, nodes.section):
        below = below.parent
    switches = html_part(render("switches.html", answers=answers, checks=checks))
    below.parent.insert(below.parent.index(below), switches)


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
    """Cover what a cell printed and all that follows it, up to the next heading."""
    printed = [node for node in cell if is_output(node)]
    following = up_to_heading(cell)
    explained = [node for node in following[:3] if is_answer(node)][:1]
    others = [node for node in following if node not in explained]
    right = None
    if explained:
        words = explained[0].astext()
        right = right_choice(words, spoken().choices)
        if right is None:  # not translated yet
            right = right_choice(words)

    # Outputs look as in a cell, whose classes they keep.
    outputs = nodes.container("", classes=[*cell["classes"], COVERED])
    for node in printed:
        cell.remove(node)
        outputs += node
    name = f"printed-{cell['cell_metadata'][PREDICTED]}"
    covered = [outputs, *explained, *others]
    index = cell.parent.index(cell) + 1
    parent = cell.parent
    parent.insert(index, frame("covered.html", *covered, name=name, right=right))


def is_output(node: nodes.Node) -> bool:
    return isinstance(node, Part) or node.get("nb_element") == OUTPUT_BOX


def up_to_heading(cell: nodes.container) -> list[nodes.Node]:
    """Return what stands below a cell in its section, before any section within that."""
    following = []
    for node in cell.parent.children[cell.parent.index(cell) + 1 :]:
        if isinstance(node, nodes.section):
            break
        following.append(node)
    return following


def is_answer(node: nodes.Node) -> bool:
    return "answer" in node.get("classes", [])
