"""The calculator: its form, with the data sheets of `cudasim` embedded.

The sheets are asked of `cudasim` when the site is built, so no figure is typed twice.
`book/static/formulas.js` computes with them and `book/static/calculator.js` draws.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.site.assets import load_where

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")


class calculator(nodes.General, nodes.Element):
    """The form, what it shows, and the sheets that it reads."""


class Calculator(SphinxDirective):
    """`calculator`: the form, at this place of a page."""

    def run(self) -> list[nodes.Node]:
        """Embed the sheets. A fault in one of them fails the build in one line."""
        try:
            return [calculator("", sheets=read_sheets(Path(self.env.srcdir)))]
        except BookError as error:
            raise ExtensionError(str(error)) from None


def setup(app: "Sphinx") -> dict[str, bool]:
    """Let a page hold the calculator, and load its script and style on that page only."""
    app.add_node(calculator, html=(visit_calculator, None))
    app.add_directive("calculator", Calculator)
    load_where(
        app, '<div class="calculator"', "calculator.css", "formulas.js", "calculator.js", defer=True
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@cache  # a process builds one site
def read_sheets(root: Path) -> dict[str, Any]:
    """What `python -m cudasim.timing` prints: `host`, and `cards` with two modelled times each.

    Raises BookError if it fails.
    """
    command = [sys.executable, "-m", "cudasim.timing"]
    environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if run.returncode:
        reason = (run.stderr.splitlines() or ["no reason given"])[-1]
        raise BookError(f"{SIMULATOR}: 'python -m cudasim.timing' fails: {reason}")
    return json.loads(run.stdout)


def visit_calculator(writer: "HTML5Translator", node: calculator) -> None:
    """Write the form of `book/templates/calculator.html`."""
    sheets = node["sheets"]
    # Sources are addresses, which no page needs to compute.
    cards = [{**card, "sources": {}, "validation": validation(card)} for card in sheets["cards"]]
    embedded = json.dumps({"host": {**sheets["host"], "sources": {}}, "cards": cards})
    context = {"cards": cards, "precisions": PRECISIONS, "sheets": embedded.replace("<", "\\u003c")}
    writer.body.append(writer.builder.templates.render("calculator.html", context))
    raise nodes.SkipNode


def validation(card: dict[str, Any]) -> str:
    """Whether the model was compared with such a card."""
    return card["provenance"]["words"]
