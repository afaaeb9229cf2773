"""The calculator: its form, with the data sheets of `cudasim` embedded.

The sheets are asked of `cudasim` when the site is built, so no figure is typed twice.
`book/static/formulas.js` computes with them and `book/static/calculator.js` draws.
"""

from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tools.site.assets import add_part, load_where
from tools.site.simulator import ask, embedded
from tools.site.templates import render

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")


def setup(app: Sphinx) -> None:
    add_part(app, "calculator", lambda env: form(read_sheets(Path(env.srcdir))))
    files = ("calculator.css", "formulas.js", "calculator.js")
    load_where(app, '<div class="calculator"', *files, defer=True)


@cache  # a process builds one site
def read_sheets(root: Path) -> dict[str, Any]:
    """The data sheets: `host`, and `cards` with two modelled times each. Raises BookError."""
    return ask(root, ["-m", "cudasim.timing"], "'python -m cudasim.timing'")


def form(sheets: dict[str, Any]) -> str:
    # Sources are addresses, which no page needs to compute.
    cards = [{**card, "sources": {}, "validation": validation(card)} for card in sheets["cards"]]
    known = embedded({"host": {**sheets["host"], "sources": {}}, "cards": cards})
    return render("calculator.html", cards=cards, precisions=PRECISIONS, sheets=known)


def validation(card: dict[str, Any]) -> str:
    """Whether the model was compared with such a card."""
    return card["provenance"]["words"]
