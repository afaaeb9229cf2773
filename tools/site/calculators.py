"""What `cudasim` models, on pages: a calculator for each of its models, a plot and a table.

All figures are asked of `cudasim` when the site is built, so none is typed twice.
`book/static/formulas.js` and `scaling-model.js` compute the same in the browser;
`calculator.js` and `scaling.js` draw."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx

from tools.book.book import Book
from tools.book.runners import SIMULATOR
from tools.errors import BookError
from tools.files import read_beside
from tools.site.assets import add_part, load_where
from tools.site.status import table
from tools.site.templates import render

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")
COUNTS = [2**power for power in range(1, 11)]  # 2 to 1,024 GPUs


class Setting(NamedTuple):
    """What joins GPUs in the plot and in the table: ids of links, and how many network cards."""

    inside: str
    between: str
    cards: int
    name: str
    look: str  # its class in the drawing


SETTINGS = [Setting(**each) for each in read_beside(__file__, "scaling.yml")]
SERVER = 8  # GPUs in each server of the plot and of the table
STEP, GRADIENTS = (
    64 / 444.51,
    4 * 110_106_428,
)  # BERT-base on a V100: the page says whose
# Runs in a process of its own, where `cudasim` is: no module here imports it.
ASK = Path(__file__).with_name("models.txt")


def setup(app: Sphinx) -> None:
    add_part(app, "calculator", lambda env: calculator(**ask(Path(env.srcdir))))
    add_part(
        app,
        "scaling-calculator",
        lambda env: render("scaling.html", **ask(Path(env.srcdir))),
    )
    add_part(app, "scaling-plot", lambda env: plot(**ask(Path(env.srcdir))))
    files = ("calculator.css", "formulas.js", "calculator.js")
    load_where(app, '<div class="calculator"', *files, defer=True)
    files = ("calculator.css", "scaling.css", "scaling-model.js", "scaling.js")
    load_where(app, '<div class="calculator scaling"', *files, defer=True)


@cache  # a process builds one site
def ask(root: Path) -> dict[str, Any]:
    """What `cudasim` knows and models: the `cards`, `links` and the allocator's `sizes`. The data
    sheets of cards come with their hosts and two modelled times; besides, the `shares` of linear
    scaling, at most and at least, for each of SETTINGS and COUNTS."""
    given = json.dumps([SETTINGS, COUNTS, SERVER, STEP, GRADIENTS])
    options = {
        "cwd": root,
        "env": os.environ | {"PYTHONPATH": f"{SIMULATOR}{os.pathsep}cudasim"},
    }
    command = [sys.executable, "-c", ASK.read_text(encoding="utf-8")]
    run = subprocess.run(
        command, input=given, capture_output=True, text=True, **options
    )
    if run.returncode:
        reason = (run.stderr.splitlines() or ["no reason given"])[-1]
        raise BookError(f"{SIMULATOR}: asking for its models fails: {reason}")
    return json.loads(run.stdout)


def calculator(cards: list[dict[str, Any]], **_: Any) -> str:
    # The validation is said of a card.
    cards = [bare(card) | {"validation": card["provenance"]["words"]} for card in cards]
    return render(
        "calculator.html", cards=cards, precisions=PRECISIONS, sheets={"cards": cards}
    )


def bare(card: dict[str, Any]) -> dict[str, Any]:
    """A card less the addresses of its sources, which no page needs to compute."""
    return card | {"sources": {}, "host": card["host"] | {"sources": {}}}


def plot(shares: list[list[list[float]]], **_: Any) -> str:
    across = [60.0 + 70 * place for place in range(len(COUNTS))]

    def high(share: float) -> float:
        return round(14 + (1 - share) * 276, 1)

    lines, bands, said = {}, {}, []
    for setting, band in zip(SETTINGS, shares, strict=True):
        edges = (
            [*zip(across, map(high, edge), strict=True)]
            for edge in zip(*band, strict=True)
        )
        lines[setting.look], least = edges
        bands[setting.look] = lines[setting.look] + least[::-1]
        two, many = (
            f"{least:.0%} to {most:.0%}" for most, least in (band[0], band[-1])
        )
        said.append(f"{setting.name}: {two} at 2 GPUs, {many} at 1,024")
    given = {"server": SERVER, "settings": SETTINGS, "lines": lines, "bands": bands}
    given["grid"] = [(percent, high(percent / 100)) for percent in range(0, 101, 20)]
    given |= {"counts": [*zip(COUNTS, across, strict=True)], "said": ". ".join(said)}
    return render("scaling-plot.html", **given)


def shares_table(book: Book) -> list[str]:
    shares = ask(book.root)["shares"]
    rows = [
        [
            f"{gpus:,}",
            *(f"{100 * least:.0f} to {100 * most:.0f} %" for most, least in line),
        ]
        for gpus, *line in zip(COUNTS, *shares, strict=True)
    ]
    heads = ["GPUs", *(setting.name for setting in SETTINGS)]
    return table(heads, rows, numbers=tuple(range(len(heads))))
