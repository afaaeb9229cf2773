"""Figures that a reader can move. A Markdown cell `move-<name>` of a chapter asks for one.

`book/static/moved.js` draws them, by formulas that compute what `cudasim` does; some cases stand
as a table in the cell. Of a table that a cell tagged `moved` prints, `cases.js` makes one.
"""

from functools import partial
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.grammar import MOVE
from tools.site.assets import add_part, load_where
from tools.site.calculators import GRADIENTS, ask, bare
from tools.site.templates import render

FIGURES = ("batch", "roofline", "blocks", "ring")
CARDS = ("T4", "H100")  # that can be chosen


def setup(app: Sphinx) -> None:
    for name in FIGURES:
        add_part(app, MOVE + name, partial(figure, name))
    files = ("moved.css", "formulas.js", "scaling-model.js", "moved.js")
    load_where(app, '<div class="moved"', *files, defer=True)
    load_where(app, "tag_moved", "moved.css", "cases.js", defer=True)


def figure(name: str, env: BuildEnvironment) -> str:
    known = ask(Path(env.srcdir))
    cards = {card["name"]: bare(card) for card in known["cards"]}
    given = {
        "cards": [cards[card] for card in CARDS],
        "links": known["links"]["inside"],
    }
    given |= {"sizes": known["sizes"], "bytes": GRADIENTS}
    return render("moved.html", name=name, given=given)
