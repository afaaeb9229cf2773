"""Predictions: the output of a cell that answers one is covered until the reader asks for it.

The cover is a native `<details>`, which needs no JavaScript. Where scripts run,
`book/static/predictions.js` makes buttons of the choices, which open it, and keeps what was
chosen. A style keeps the cell below out of sight, too, as it asserts the answer. Paper shows
everything.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from tools.book.chapters import PREDICTED
from tools.site.assets import load_where
from tools.site.tabs import is_cell, tab_set

SWITCH = (
    '<p class="prediction-switch">What answers a prediction is covered until you choose, or ask '
    'for it. <button type="button" aria-pressed="false">Show everything</button></p>\n'
)


class prediction(nodes.General, nodes.Element):
    """What is asked: a paragraph and, maybe, its choices. The `first` of a page has a switch."""


class covered(nodes.General, nodes.Element):
    """What the cell `cell` printed, on every runner."""


def setup(app: Sphinx) -> None:
    app.add_node(prediction, html=(visit_prediction, depart_prediction))
    app.add_node(covered, html=(visit_covered, depart_covered))
    app.connect("doctree-read", cover, priority=600)  # once the tabs are gathered
    load_where(app, '<details class="covered"', "predictions.css", "predictions.js")


def cover(app: Sphinx, doctree: nodes.document) -> None:
    """Put what is asked into one box, and what was printed under a cover."""
    answers = [cell for cell in doctree.findall(is_cell) if PREDICTED in cell["cell_metadata"]]
    for number, cell in enumerate(answers):
        asked = [node for node in preceding(cell) if isinstance(node, ASKED)]
        for node in asked:
            node.parent.remove(node)
        cell.parent.insert(cell.parent.index(cell), prediction("", *asked, first=number == 0))
        printed = [node for node in cell if is_output(node)]
        for node in printed:
            cell.remove(node)
        cell += covered("", *printed, name=f"printed-{cell['cell_metadata'][PREDICTED]}")


ASKED = nodes.paragraph, nodes.bullet_list


def preceding(cell: nodes.container) -> list[nodes.Node]:
    """The question above a cell: a paragraph, or a paragraph and its list of choices."""
    above = cell.parent.children[: cell.parent.index(cell)]
    return above[-2:] if above and isinstance(above[-1], nodes.bullet_list) else above[-1:]


def is_output(node: nodes.Node) -> bool:
    """True for what a cell printed: for all runners, or in tabs."""
    return isinstance(node, tab_set) or node.get("nb_element") == "cell_code_output"


def visit_prediction(writer: HTML5Translator, node: prediction) -> None:
    """Above the first prediction of a page, the switch for all of them."""
    writer.body.append(f'{SWITCH if node["first"] else ""}<div class="prediction">\n')


def depart_prediction(writer: HTML5Translator, node: prediction) -> None:
    writer.body.append("</div>\n")


def visit_covered(writer: HTML5Translator, node: covered) -> None:
    """A place for what the reader chose, then the cover."""
    writer.body.append(
        '<p class="chosen" role="status"></p>\n'
        f'<details class="covered" id="{node["name"]}">\n<summary>'
        '<span class="show">Show what it printed</span>'
        '<span class="hide">Cover what it printed</span></summary>\n'
    )


def depart_covered(writer: HTML5Translator, node: covered) -> None:
    writer.body.append("</details>\n")
