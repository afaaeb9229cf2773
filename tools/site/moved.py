"""Figures that a reader can move. A Markdown cell `move-<name>` of a chapter asks for one.

`book/static/moved.js` draws them with `formulas.js`, which computes what `cudasim` does. The table
of each, which needs no JavaScript, is of `cudasim` itself, asked when the site is built.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from tools.site.assets import add_part, load_where
from tools.site.calculators import ask
from tools.site.merge import MOVE
from tools.site.templates import render

CARDS = ("T4", "H100")  # that can be chosen; the table is of the first
CALLS, WIDTH = 10, 256  # products with a square matrix, in a row
BATCHES = [2**power for power in range(3, 17)]
SIDES = [2**power for power in range(5, 14)]


def product(m: int, n: int, k: int) -> tuple:
    """The work of a product of float32 matrices, m x k and k x n."""
    return "matmul", 2 * m * n * k, 4 * (m * k + k * n + m * n), (1, m, n, k)


def total(n: int) -> tuple:
    """The work of X + Y, n x n."""
    return "pointwise", n**2, 12 * n**2, None


def setup(app: Sphinx) -> None:
    for name, (heads, rows, sizes) in FIGURES.items():
        add_part(app, MOVE + name, partial(figure, name, heads, rows, sizes))
    load_where(app, '<div class="moved"', "moved.css", "formulas.js", "moved.js", defer=True)


def figure(
    name: str, heads: tuple[str, ...], rows: Callable, sizes: list[int], env: BuildEnvironment
) -> str:
    root = Path(env.srcdir)
    cards = [card | {"sources": {}, "provenance": {}} for card in ask(root)["cards"]]
    cards = [card for wanted in CARDS for card in cards if card["name"] == wanted]
    for card in cards:
        card["host"] |= {"sources": {}}
    table = rows(lambda *works: ask(root, works)["times"])
    return render(
        "moved.html", name=name, heads=heads, rows=table, sizes=sizes, sheets={"cards": cards}
    )


def batch_rows(times: Callable) -> list[tuple[str, ...]]:
    sizes = BATCHES[::3]
    rows = []
    works = [product(size, WIDTH, WIDTH) for size in sizes]
    for size, (launch, kernel, *_) in zip(sizes, times(*works), strict=True):
        end = CALLS * launch + kernel if launch > kernel else launch + CALLS * kernel
        limit = "Python" if launch > kernel else "the GPU"
        numbers = map(seconds, (CALLS * launch, CALLS * kernel, end))
        rows.append((f"{size:,}", *numbers, f"{_short(size / end):,.0f}", limit))
    return rows


def roofline_rows(times: Callable) -> list[tuple[str, ...]]:
    cases = [(name, n) for name in ("X @ Y", "X + Y") for n in SIDES[1::2]]
    works = [product(n, n, n) if "@" in name else total(n) for name, n in cases]
    rows = []
    for (name, n), work, needs in zip(cases, works, times(*works), strict=True):
        launch, kernel, compute, memory = needs
        limit = "arithmetic" if compute > memory else "memory"
        if launch >= kernel or kernel >= 2 * max(compute, memory):  # or the start of a kernel
            limit = "the launch"
        speed = work[1] / max(launch, kernel) / 1e9
        rows.append((name, f"{n:,}", f"{_short(work[1] / work[2]):g}", gigaflops(speed), limit))
    return rows


def seconds(time: float) -> str:
    unit, size = ("ms", 1e-3) if time >= 1e-3 else ("µs", 1e-6)
    return f"≈ {_short(time / size):g} {unit}"


def gigaflops(speed: float) -> str:
    return f"≈ {_short(speed):,g} GFLOP/s"


def _short(number: float) -> float:
    return float(f"{number:.2g}")


FIGURES = {
    "batch": (
        ("Rows", "Python launches", "The GPU works", "In all", "Rows a second", "The limit"),
        batch_rows,
        BATCHES,
    ),
    "roofline": (
        ("What", "n", "Operations a byte", "Speed", "The limit"),
        roofline_rows,
        SIDES,
    ),
}
