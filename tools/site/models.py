"""What `cudasim` models, on pages: calculators, figures that a reader can move, a plot.

All figures are asked of `cudasim` when the site is built, so that none is typed twice.
`formulas.js` and `scaling-model.js` of `book/static/` compute the same in the browser;
`calculator.js`, `scaling.js` and `moved.js` draw it.

A text cell `move-<name>` of a chapter asks for the figure of that name, below its own
words. Of a table that a cell with the tag `moved` prints, `cases.js` makes another.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.book.book import Book
from tools.book.grammar import MOVE
from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.files import read_beside
from tools.site.parts import add_part, load_where, render
from tools.site.status import RIGHT, table

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")
COUNTS = [2**power for power in range(1, 11)]  # 2 to 1,024 GPUs
SERVER = 8  # GPUs in each server of the plot and of the table
# BERT-base on a V100, in seconds and bytes: the page says whose figures they are.
STEP = 64 / 444.51
GRADIENTS = 4 * 110_106_428

FIGURES = ("batch", "roofline", "blocks", "ring")
FIGURE_CARDS = ("T4", "H100")  # the cards that can be chosen in a figure

# The drawing of the plot: where its grid begins and ends, and what lies between counts.
LEFT, STRIDE, TOP, HEIGHT = 60.0, 70, 14, 276


@dataclass(frozen=True)
class Interconnect:
    """What joins GPUs in the plot and in the table: ids of links, and network cards."""

    inside: str
    between: str
    cards: int  # network cards of a server
    name: str
    look: str  # its class in the drawing


INTERCONNECTS = [Interconnect(**row) for row in read_beside(__file__, "scaling.yml")]


@dataclass(frozen=True)
class Models:
    """What `cudasim` knows and models."""

    cards: list[dict[str, Any]]  # data sheets, with the host and two modelled times
    links: dict[str, list[dict[str, Any]]]  # inside servers, and between them
    sizes: dict[str, int]  # of the allocator
    # The share of linear scaling, at most and at least, by INTERCONNECTS and COUNTS.
    shares: list[list[list[float]]]


def setup(app: Sphinx) -> None:
    add_part(app, "calculator", calculator)
    add_part(app, "scaling-calculator", scaling_calculator)
    add_part(app, "scaling-plot", scaling_plot)
    for name in FIGURES:
        add_part(app, MOVE + name, partial(figure, name))

    files = ["calculator.css", "formulas.js", "calculator.js"]
    load_where(app, '<div class="calculator"', *files, defer=True)
    files = ["calculator.css", "scaling.css", "scaling-model.js", "scaling.js"]
    load_where(app, '<div class="calculator scaling"', *files, defer=True)
    files = ["moved.css", "formulas.js", "scaling-model.js", "moved.js"]
    load_where(app, '<div class="moved"', *files, defer=True)
    load_where(app, "tag_moved", "moved.css", "cases.js", defer=True)


@cache  # a process draws one site
def read_models(root: Path) -> Models:
    """Ask `cudasim`, in a process of its own, for what pages show of it."""
    question = {
        "interconnects": [asdict(interconnect) for interconnect in INTERCONNECTS],
        "counts": COUNTS,
        "server": SERVER,
        "step": STEP,
        "gradients": GRADIENTS,
    }
    path = os.pathsep.join([SIMULATOR, "cudasim"])
    process = subprocess.run(
        [sys.executable, "-m", "tools.site.simulated_models"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": path},
    )
    if process.returncode != 0:
        reason = process.stderr.strip().rpartition("\n")[2]
        raise BookError(SIMULATOR, f"asking for its models fails: {reason}")
    return Models(**json.loads(process.stdout))


def models_of(env: BuildEnvironment) -> Models:
    return read_models(Path(env.srcdir))


def without_sources(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card less the addresses of its sources, which no page computes with."""
    no_sources: dict[str, Any] = {"sources": {}}
    host = card["host"] | no_sources
    return card | no_sources | {"host": host}


def calculator(env: BuildEnvironment) -> str:
    cards = []
    for card in models_of(env).cards:
        sheet = without_sources(card)
        sheet["validation"] = card["provenance"]["words"]  # it is said of a card
        cards.append(sheet)
    return render(
        "calculator.html", cards=cards, precisions=PRECISIONS, sheets={"cards": cards}
    )


def scaling_calculator(env: BuildEnvironment) -> str:
    return render("scaling.html", links=models_of(env).links)


def figure(name: str, env: BuildEnvironment) -> str:
    """Draw a figure that a reader can move."""
    models = models_of(env)
    cards = {card["name"]: card for card in models.cards}
    facts = {
        "cards": [without_sources(cards[name]) for name in FIGURE_CARDS],
        "links": models.links["inside"],
        "sizes": models.sizes,
        "bytes": GRADIENTS,
    }
    return render("moved.html", name=name, given=facts)


def scaling_plot(env: BuildEnvironment) -> str:
    """Plot the modelled efficiency by number of GPUs: a line and a band for each interconnect."""
    across = [LEFT + STRIDE * index for index in range(len(COUNTS))]
    lines = {}
    bands = {}
    summaries = []
    models = models_of(env)
    for interconnect, shares in zip(INTERCONNECTS, models.shares, strict=True):
        line = []  # along the most that links allow
        edge = []  # along the least
        for x, (most, least) in zip(across, shares, strict=True):
            line.append((x, height(most)))
            edge.append((x, height(least)))
        lines[interconnect.look] = line
        bands[interconnect.look] = line + edge[::-1]
        few = percent_range(shares[0])
        many = percent_range(shares[-1])
        summaries.append(f"{interconnect.name}: {few} at 2 GPUs, {many} at 1,024")

    percents = range(0, 101, 20)
    return render(
        "scaling-plot.html",
        server=SERVER,
        interconnects=INTERCONNECTS,
        lines=lines,
        bands=bands,
        grid=[(percent, height(percent / 100)) for percent in percents],
        counts=list(zip(COUNTS, across, strict=True)),
        summary=". ".join(summaries),
    )


def height(share: float) -> float:
    return round(TOP + (1 - share) * HEIGHT, 1)


def percent_range(edges: list[float]) -> str:
    most, least = edges
    return f"{least:.0%} to {most:.0%}"


def shares_table(book: Book) -> list[str]:
    """Return the same efficiencies as a Markdown table: a row for each number of GPUs."""
    rows = []
    for index, gpus in enumerate(COUNTS):
        row = [f"{gpus:,}"]
        for shares in read_models(book.root).shares:
            most, least = shares[index]
            row.append(f"{100 * least:.0f} to {100 * most:.0f} %")
        rows.append(row)
    names = [interconnect.name for interconnect in INTERCONNECTS]
    return table(dict.fromkeys(["GPUs", *names], RIGHT), rows)
