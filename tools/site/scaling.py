"""How far training scales, as `cudasim` models it: a plot, its table and a calculator.

All figures are computed by `cudasim` when the site is built. `book/static/scaling-model.js`
computes the same in the browser, and `book/static/scaling.js` draws.
"""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx

from tools.book.book import Book
from tools.site import simulator
from tools.site.assets import add_part, load_where
from tools.site.table import table
from tools.site.templates import render

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
    "shares": [shares(*setting) for setting in settings],
    "links": json.loads(scaling.PATH.read_text(encoding="utf-8")),
}))
"""


def setup(app: Sphinx) -> None:
    add_part(app, "scaling-calculator", lambda env: form(ask(Path(env.srcdir))["links"]))
    add_part(app, "scaling-plot", lambda env: plot(ask(Path(env.srcdir))["shares"]))
    files = ("calculator.css", "scaling.css", "scaling-model.js", "scaling.js")
    load_where(app, '<div class="calculator scaling"', *files, defer=True)


@cache  # a process builds one site
def ask(root: Path) -> dict[str, Any]:
    """`shares` of linear scaling for each of SETTINGS and COUNTS, and `links`. Raises BookError."""
    given = json.dumps([SETTINGS, COUNTS, SERVER, STEP, GRADIENTS])
    return simulator.ask(root, ["-c", ASK], "the scaling model", given)


def form(links: dict[str, list[dict[str, Any]]]) -> str:
    known = {
        where: [
            {name: link[name] for name in ("id", "name", "latency")}
            | {"bandwidth": link["line"] * link["share"]}
            for link in listed
        ]
        for where, listed in links.items()
    }
    return render("scaling.html", links=known, embedded=simulator.embedded(known))


def plot(shares: list[list[float]]) -> str:
    """The efficiencies as a figure of 720 x 340, whose axes cross at 60, 290."""

    def x(gpus: int) -> float:
        return round(60 + math.log2(gpus / COUNTS[0]) / math.log2(COUNTS[-1] / COUNTS[0]) * 630, 1)

    def y(share: float) -> float:
        return round(14 + (1 - share) * 276, 1)

    lines, said = {}, []
    for setting, line in zip(SETTINGS, shares, strict=True):
        places = zip(COUNTS, line, strict=True)
        lines[setting.look] = [(x(gpus), y(share)) for gpus, share in places]
        said.append(f"{setting.name}: {line[0]:.0%} at 2 GPUs, {line[-1]:.0%} at 1,024")
    return render(
        "scaling-plot.html",
        server=SERVER,
        settings=SETTINGS,
        grid=[(percent, y(percent / 100)) for percent in range(0, 101, 20)],
        counts=[(gpus, x(gpus)) for gpus in COUNTS],
        lines=lines,
        said=". ".join(said),
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
