"""How far training scales, as `cudasim` models it: a plot, its table and a calculator.

All figures are computed by `cudasim` when the site is built. `book/static/scaling-model.js`
computes the same in the browser, and `book/static/scaling.js` draws.
"""

import json
import math
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.book.book import Book
from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.site.assets import load_where
from tools.site.table import table

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

COUNTS = [2**power for power in range(1, 11)]  # 2 to 1,024 GPUs


class Setting(NamedTuple):
    """What joins GPUs in the plot and in the table: ids of links, and how many network cards."""

    inside: str
    between: str
    cards: int
    name: str
    look: str  # its class in the drawing


SETTINGS = (
    Setting("nvlink2", "ib100", 4, "NVLink 2, 4 x InfiniBand 100 Gb/s", "first"),
    Setting("nvlink2", "eth50", 1, "NVLink 2, Ethernet 50 Gb/s", "second"),
    Setting("pcie3", "eth25", 1, "PCI Express 3, Ethernet 25 Gb/s", "third"),
    Setting("pcie3", "eth10", 1, "PCI Express 3, Ethernet 10 Gb/s", "fourth"),
)
SERVER = 8  # GPUs in each server of the plot and of the table
STEP, GRADIENTS = 64 / 444.51, 4 * 110_106_428  # BERT-base on a V100: the page says whose
# Runs where `cudasim` is: the efficiencies of SETTINGS, and the links for the calculator.
ASK = """
import json, sys
from cudasim.timing import scaling
settings, counts, server, step, gradients = json.load(sys.stdin)
training = scaling.Training(step, gradients)
def shares(inside, between, cards, name, look):
    links = scaling.links("inside")[inside], scaling.links("between")[between]
    return [
        scaling.efficiency(training, scaling.Cluster(gpus, server, *links, cards))
        for gpus in counts
    ]
print(json.dumps({
    "shares": [shares(*each) for each in settings],
    "links": json.loads(scaling.PATH.read_text(encoding="utf-8")),
}))
"""


class scaling(nodes.General, nodes.Element):
    """The calculator's form, or the plot."""


class Scaling(SphinxDirective):
    """`scaling-calculator` and `scaling-plot`, at this place of a page."""

    def run(self) -> list[nodes.Node]:
        """Embed what is computed. A fault fails the build in one line."""
        try:
            return [scaling("", model=ask(Path(self.env.srcdir)), what=self.name)]
        except BookError as error:
            raise ExtensionError(str(error)) from None


def setup(app: "Sphinx") -> dict[str, bool]:
    """Let a page hold the calculator and the plot; load their script and style on it only."""
    app.add_node(scaling, html=(visit_scaling, None))
    for name in ("scaling-calculator", "scaling-plot"):
        app.add_directive(name, Scaling)
    files = ("calculator.css", "scaling.css", "scaling-model.js", "scaling.js")
    load_where(app, '<div class="calculator scaling"', *files, defer=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


@cache  # a process builds one site
def ask(root: Path) -> dict[str, Any]:
    """`shares` of linear scaling for each of SETTINGS and COUNTS, and `links`. Raises BookError."""
    given = json.dumps([SETTINGS, COUNTS, SERVER, STEP, GRADIENTS])
    return json.loads(_run(root, ["-c", ASK], "the scaling model", given))


def _run(root: Path, arguments: list[str], what: str, given: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(root / SIMULATOR)}
    run = subprocess.run(
        [sys.executable, *arguments],
        **{"cwd": root, "env": environment, "input": given, "capture_output": True, "text": True},
    )
    if run.returncode:
        reason = (run.stderr.splitlines() or ["no reason given"])[-1]
        raise BookError(f"{SIMULATOR}: {what} fails: {reason}")
    return run.stdout


def visit_scaling(writer: "HTML5Translator", node: scaling) -> None:
    """Write the plot, or the form of `book/templates/scaling.html`."""
    if node["what"] == "scaling-plot":
        writer.body.append(plot(node["model"]["shares"]))
        raise nodes.SkipNode
    known = {
        where: [
            {"id": each["id"], "name": each["name"], "latency": each["latency"]}
            | {"bandwidth": each["line"] * each["share"]}
            for each in listed
        ]
        for where, listed in node["model"]["links"].items()
    }
    embedded = json.dumps(known).replace("<", "\\u003c")
    context = {"links": known, "embedded": embedded}
    writer.body.append(writer.builder.templates.render("scaling.html", context))
    raise nodes.SkipNode


# The plot

WIDTH, HEIGHT = 720, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 30, 14, 50
MARKS = {
    "first": "M{x} {y}m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",
    "second": "M{x} {y}m-5 -5h10v10h-10z",
    "third": "M{x} {y}m0 -6l6 6l-6 6l-6 -6z",
    "fourth": "M{x} {y}m0 -6l6 11h-12z",
}


def plot(shares: list[list[float]]) -> str:
    """The efficiencies as a figure: a line for each of SETTINGS, with its key below."""

    def x(gpus: int) -> float:
        whole = math.log2(COUNTS[-1] / COUNTS[0])
        return round(LEFT + math.log2(gpus / COUNTS[0]) / whole * (WIDTH - LEFT - RIGHT), 1)

    def y(share: float) -> float:
        return round(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM), 1)

    parts = []
    for percent in range(0, 101, 20):
        high = y(percent / 100)
        parts.append(f'<path class="grid" d="M{LEFT} {high}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="end" x="{LEFT - 8}" y="{high + 5}">{percent} %</text>')
    for gpus in COUNTS:
        parts.append(f'<text class="middle" x="{x(gpus)}" y="{HEIGHT - 28}">{gpus:,}</text>')
    parts.append(
        f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}">GPUs</text>'
    )
    said = []
    for setting, line in zip(SETTINGS, shares, strict=True):
        at = [(x(gpus), y(share)) for gpus, share in zip(COUNTS, line, strict=True)]
        path = "L".join(f"{a} {b}" for a, b in at)
        parts.append(f'<path class="line {setting.look}" d="M{path}"/>')
        marks = "".join(MARKS[setting.look].format(x=a, y=b) for a, b in at)
        parts.append(f'<path class="marks {setting.look}" d="{marks}"/>')
        said.append(f"{setting.name}: {line[0]:.0%} at 2 GPUs, {line[-1]:.0%} at 1,024")
    keys = "".join(
        f'<li><svg width="36" height="14" aria-hidden="true"><path class="line {each.look}" '
        f'd="M0 7H36"/><path class="marks {each.look}" d="{MARKS[each.look].format(x=18, y=7)}"/>'
        f"</svg> {each.name}</li>"
        for each in SETTINGS
    )
    label = f"Modelled efficiency by number of GPUs. {'. '.join(said)}."
    return (
        '<figure class="scaling-plot"><figcaption>Modelled, not measured: efficiency of '
        f'data-parallel training, {SERVER} GPUs a server.</figcaption><svg viewBox="0 0 {WIDTH} '
        f'{HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
        f'<ul class="legend">{keys}</ul></figure>'
    )


def shares_table(book: Book) -> list[str]:
    """The lines of a Markdown table: modelled efficiency by GPUs and links."""
    shares = ask(book.root)["shares"]
    rows = [
        [f"{gpus:,}", *(f"{line[place]:.0%}".replace("%", " %") for line in shares)]
        for place, gpus in enumerate(COUNTS)
    ]
    heads = ["GPUs", *(setting.name for setting in SETTINGS)]
    return table(heads, rows, numbers=tuple(range(len(heads))))
