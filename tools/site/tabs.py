"""Tabs: outputs that differ between runners, side by side under one cell.

`tools.site.merge` has put one cell for each runner after the cell that printed. Here they
become one set of tabs. Without JavaScript, and on paper, all of them are shown, one below
the other, each under its runner's name; `book/static/tabs.js` makes tabs of them.
"""

from itertools import takewhile

from docutils import nodes
from sphinx.application import Sphinx

from tools.site.assets import framed
from tools.site.speech import tr


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", gather)
    app.add_css_file("tabs.css")
    app.add_js_file("tabs.js")


def gather(app: Sphinx, doctree: nodes.document) -> None:
    """Put the outputs of all runners of a cell into one set of tabs, within that cell."""
    for cell in [node for node in doctree.findall(is_cell) if not runner_of(node)]:
        following = cell.parent.children[cell.parent.index(cell) + 1 :]
        outputs = [*takewhile(runner_of, following)]
        runners = [runner_of(output) for output in outputs]
        panels = []
        for output, runner in zip(outputs, runners, strict=True):
            output.parent.remove(output)
            printed = output.children or [nodes.paragraph("", tr("Prints nothing."))]
            panels.append(framed("tab.html", *printed, runner=runner, first=not panels))
        if panels:
            cell += framed("tabs.html", *panels, runners=runners)


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def runner_of(node: nodes.Node) -> dict | None:
    """What is known of the runner whose outputs a cell holds; None for an ordinary cell."""
    return node["cell_metadata"].get("runner") if is_cell(node) else None
