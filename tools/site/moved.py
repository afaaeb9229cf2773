"""Figures that a reader can move. A Markdown cell `move-<name>` of a chapter asks for one.

`book/static/moved.js` draws them with `formulas.js`, which computes what `cudasim` does. The table
of each, which needs no JavaScript, is of `cudasim` itself, asked when the site is built.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.site.assets import add_part, load_where
from tools.site.calculators import COUNTS, GRADIENTS, ask
from tools.site.merge import MOVE
from tools.site.templates import render

CARDS = ("T4", "H100")  # that can be chosen; the table is of the first
CALLS, WIDTH = 10, 256  # products with a square matrix, in a row
BATCHES = [2**power for power in range(3, 17)]
SIDES = [2**power for power in range(5, 14)]
BYTES = [24, 512, 4000, 100_000, 2**20, 2**20 + 4, 4_000_000, 10 * 2**20, 12_000_000, 50_000_000]
RANKS = COUNTS[:6]


def product(m: int, n: int, k: int) -> tuple:
    """The work of a product of float32 matrices, m x k and k x n."""
    return "matmul", 2 * m * n * k, 4 * (m * k + k * n + m * n), (1, m, n, k)


def total(n: int) -> tuple:
    """The work of X + Y, n x n."""
    return "pointwise", n**2, 12 * n**2, None


def setup(app: Sphinx) -> None:
    for name in FIGURES:
        add_part(app, MOVE + name, partial(figure, name))
    files = ("moved.css", "formulas.js", "scaling-model.js", "moved.js")
    load_where(app, '<div class="moved"', *files, defer=True)


def figure(name: str, env: BuildEnvironment) -> str:
    """The place of a figure, what its script needs to know, and its table."""
    label, heads, rows, sizes = FIGURES[name]
    know = partial(ask, Path(env.srcdir))
    links, cards = know()["links"]["inside"], []
    for card in know()["cards"]:
        if card["name"] in CARDS:
            about = {"sources": {}, "provenance": {}, "host": card["host"] | {"sources": {}}}
            cards.append(card | about)
    cards.sort(key=lambda card: CARDS.index(card["name"]))
    known = {"blocks": know()["sizes"], "ring": {"links": links, "bytes": GRADIENTS}}
    given = known.get(name, {"cards": cards})
    table = rows(know)
    return render(
        "moved.html", name=name, label=label, heads=heads, rows=table, sizes=sizes, given=given
    )


def batch_rows(know: Callable) -> list[tuple[str, ...]]:
    sizes = BATCHES[::3]
    rows = []
    works = tuple(product(size, WIDTH, WIDTH) for size in sizes)
    for size, (launch, kernel, *_) in zip(sizes, know(works)["times"], strict=True):
        end = CALLS * launch + kernel if launch > kernel else launch + CALLS * kernel
        limit = "Python" if launch > kernel else "the GPU"
        numbers = map(seconds, (CALLS * launch, CALLS * kernel, end))
        rows.append((f"{size:,}", *numbers, f"{_short(size / end):,.0f}", limit))
    return rows


def roofline_rows(know: Callable) -> list[tuple[str, ...]]:
    cases = [(name, n) for name in ("X @ Y", "X + Y") for n in SIDES[1::2]]
    works = tuple(product(n, n, n) if "@" in name else total(n) for name, n in cases)
    rows = []
    for (name, n), work, needs in zip(cases, works, know(works)["times"], strict=True):
        launch, kernel, compute, memory = needs
        limit = "arithmetic" if compute > memory else "memory"
        if launch >= kernel or kernel >= 2 * max(compute, memory):  # or the start of a kernel
            limit = "the launch"
        speed = work[1] / max(launch, kernel) / 1e9
        rows.append((name, f"{n:,}", f"{_short(work[1] / work[2]):g}", gigaflops(speed), limit))
    return rows


def block_rows(know: Callable) -> list[tuple[str, ...]]:
    size, rows = know()["sizes"], []
    for asked in BYTES[::2]:
        block = -(-asked // size["BLOCK"]) * size["BLOCK"]
        segment = -(-block // size["GRAIN"]) * size["GRAIN"]
        if block < size["HUGE"]:
            segment = size["SMALL_SEGMENT" if block <= size["SMALL"] else "LARGE_SEGMENT"]
        if block > size["SMALL"] and segment - block <= size["SMALL"]:
            block = segment  # the rest is too small to be split off
        mib = f"{segment // 2**20:,} MiB"
        rows.append((f"{asked:,}", f"{block:,}", mib, f"{segment // block:,}"))
    return rows


def ring_rows(know: Callable) -> list[tuple[str, ...]]:
    rows = []
    for ranks, taken in zip(RANKS, know()["rings"], strict=False):
        part = f"{_short(GRADIENTS / ranks / 1e6):g} MB"
        sent = f"{_short(2 * (ranks - 1) / ranks * GRADIENTS / 1e6):g} MB"
        rows.append((f"{ranks:,}", f"{2 * (ranks - 1)}", part, sent, seconds(taken)))
    return rows


def seconds(time: float) -> str:
    unit, size = ("ms", 1e-3) if time >= 1e-3 else ("µs", 1e-6)
    return f"≈ {_short(time / size):g} {unit}"


def gigaflops(speed: float) -> str:
    return f"≈ {_short(speed):,g} GFLOP/s"


def _short(number: float) -> float:
    return float(f"{number:.2g}")


class Figure(NamedTuple):
    label: str  # of what can be moved
    heads: tuple[str, ...]  # of the table
    rows: Callable  # of it, from what `ask` tells
    sizes: list[int]


FIGURES = {
    "batch": Figure(
        "Rows of the batch",
        ("Rows", "Python launches", "The GPU works", "In all", "Rows a second", "The limit"),
        batch_rows,
        BATCHES,
    ),
    "roofline": Figure(
        "n, rows and columns of X and Y",
        ("What", "n", "Operations a byte", "Speed", "The limit"),
        roofline_rows,
        SIDES,
    ),
    "blocks": Figure(
        "Bytes of a tensor",
        ("Bytes of a tensor", "Its block, in bytes", "The segment", "Such tensors in it"),
        block_rows,
        BYTES,
    ),
    "ring": Figure(
        "Ranks on the ring",
        ("Ranks", "Parts sent by each", "A part", "In all", "Takes"),
        ring_rows,
        RANKS,
    ),
}
