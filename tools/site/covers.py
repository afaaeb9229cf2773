"""Predictions: what answers one, output and words, is covered until the reader asks for it.

The cover is a native `<details>`, which needs no JavaScript. Where scripts run,
`book/static/predictions.js` makes buttons of the choices, which open it, says whether the choice
was right, and keeps it. Paper shows everything.
"""

from docutils import nodes
from sphinx.application import Sphinx

from tools.book.grammar import PREDICTED
from tools.book.predictions import right_choice
from tools.site import speech
from tools.site.assets import framed, load_where, part
from tools.site.tabs import is_cell
from tools.site.templates import render

OUTPUT = "cell_code_output"  # as MyST-NB calls it
ASKED = nodes.paragraph, nodes.bullet_list


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", cover, priority=600)  # once the tabs are gathered
    load_where(app, '<details class="covered"', "predictions.css", "predictions.js")


def cover(app: Sphinx, doctree: nodes.document) -> None:
    """Box what is asked, cover what was printed; above the first is the switch for all."""
    answers = [
        cell for cell in doctree.findall(is_cell) if PREDICTED in cell["cell_metadata"]
    ]
    for cell in answers[:1]:
        while not isinstance(cell.parent, nodes.section):
            cell = cell.parent  # a block of one framework: the switch is for all
        asked = preceding(cell) if cell is answers[0] else [cell]
        switch = part("", html=render("prediction-switch.html"), end="")
        cell.parent.insert(cell.parent.index(asked[0]), switch)
    for cell in answers:
        asked = framed(
            "prediction.html", *(n for n in preceding(cell) if isinstance(n, ASKED))
        )
        cell.parent.insert(cell.parent.index(cell), asked)
        told = told_below(cell)
        printed = [
            n for n in cell if isinstance(n, part) or n.get("nb_element") == OUTPUT
        ]
        name = f"printed-{cell['cell_metadata'][PREDICTED]}"
        right = right_choice(told[0].astext(), speech.choices()) if told else None
        cell += framed("covered.html", *printed, *told, name=name, right=right)


def preceding(cell: nodes.container) -> list[nodes.Node]:
    """The question above a cell: a paragraph, or a paragraph and its list of choices."""
    above = cell.parent.children[: cell.parent.index(cell)]
    return (
        above[-2:] if above and isinstance(above[-1], nodes.bullet_list) else above[-1:]
    )


def told_below(cell: nodes.container) -> list[nodes.Node]:
    """The answer in words, and the fold between, of what must hold, if there is one."""
    below = cell.parent.children[cell.parent.index(cell) + 1 :][:2]
    answers = [node for node in below if "answer" in node.get("classes", [])]
    return [*answers, *below[: below.index(answers[0])]] if answers[:1] else []
