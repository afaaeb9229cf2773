"""The Gantt chart of a timeline, drawn with matplotlib, which is imported here and nowhere else."""

import io
import re
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from cudasim.clock.bars import IDLE, Bar, Chart, split
from cudasim.words import WORDS

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(WORDS["times"]["no matplotlib"].format(error)) from None

# Told apart by readers of every kind of sight: all but the host's grey are of Okabe and Ito, Color
# Universal Design, 2008. On white each has a contrast of at least 3; the picture brings its own
# background. A wait is hatched besides, and a lane has its name.
COLOURS = {"host": "#667085", "gpu0": "#0072b2", "gpu1": "#d55e00"}
COLOURS |= {"copy": "#009e73", "wait": "#cc79a7"}
LETTERS = {
    "host": "white",
    "gpu0": "white",
    "gpu1": "black",
    "copy": "black",
}  # in a bar
# Inches: the picture, a lane, what is above and below, a line of words.
WIDTH, ROW, EDGES, LINE = 7.2, 0.38, 1.2, 0.15
THICK = 14  # points: a bar of work, a line, which takes half the room of a rectangle
THIN = 0.13  # half a bar of waiting, as a share of its lane
HATCHED = {"facecolor": "white", "hatch": "////////", "linewidth": 0.7}
LETTER = 5.5  # points: the width of a letter in a bar, with room at the ends
LABELS = 24  # that a picture holds
PATH, DIGITS = re.compile(r' d="[^"]*"'), re.compile(r"(\.\d\d)\d+")
STYLE = {"svg.hashsalt": "cudasim", "svg.fonttype": "none"}
STYLE |= {"font.size": 9, "hatch.linewidth": 0.8}


def figure(chart: Chart) -> Figure:
    """Lanes as rows over an axis of time. Waiting is a thin, hatched bar."""
    bars, lanes = chart.bars, [lane for lane, _, _ in chart.lanes]
    unit, size = ("ms", 1e6) if chart.length >= 1e6 else ("µs", 1e3)
    high = EDGES + ROW * len(lanes) + LINE * len(chart.notes)
    with matplotlib.rc_context(STYLE):
        drawn = Figure((WIDTH, high), layout="constrained", facecolor="white")
        axes = drawn.add_subplot(facecolor="white", axisbelow=True)
        axes.set(xlim=(0, (chart.length or 1) / size), ylim=(len(lanes) - 0.5, -0.5))
        shares = [
            f"{lane}\n≈ {100 * share:.0f} % busy" for lane, _, share in chart.lanes
        ]
        axes.set_yticks(range(len(lanes)), shares, fontsize=8)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel("\n".join([f"≈ {unit}", *chart.notes]))
        drawn.suptitle(f"Timeline, {chart.source}", x=0.01, ha="left", fontsize=10)
        for row, (last, lane) in enumerate(pairwise(lanes)):  # between ranks
            if split(last)[0] != split(lane)[0]:
                axes.axhline(row + 0.5, color=COLOURS["host"], linewidth=1.2)
        draw_bars(axes, bars, {lane: row for row, lane in enumerate(lanes)}, size)
        names = {meaning(bar): paint(bar) for bar in bars}
        marks = {
            name: Line2D([], [], color=COLOURS[name], linewidth=8) for name in COLOURS
        }
        marks["wait"] = Patch(edgecolor=COLOURS["wait"], **HATCHED)
        shown = [marks[name] for name in names.values()]
        drawn.legend(
            shown, names, loc="outside lower left", ncols=len(names), frameon=False
        )
    return drawn


def paint(bar: Bar) -> str:
    if bar.kind in IDLE:
        return "wait"
    if bar.kind != "kernel":
        return "copy" if bar.kind == "copy" else "host"
    number = bar.device.partition(":")[2]
    return f"gpu{int(number) % 2}" if number.isdigit() else "gpu0"


def meaning(bar: Bar) -> str:
    return f"kernel on {bar.device}" if bar.kind == "kernel" else bar.kind


def draw_bars(axes: Axes, bars: list[Bar], rows: dict[str, int], size: float) -> None:
    """The bars of each colour as one path: thick lines, and rectangles for what is hatched."""
    whole = axes.get_xlim()[1]
    least = whole / 1500  # so that the shortest is seen
    for name, colour in COLOURS.items():
        shapes = []
        for bar in bars:
            if paint(bar) == name:
                a, y = bar.start / size, rows[bar.lane]
                b, low, high = max(bar.end / size, a + least), y - THIN, y + THIN
                box = [(a, low), (b, low), (b, high), (a, high), (a, low)]
                shapes.append(box if name == "wait" else [(a, y), (b, y)])
        look = {"fill": False, "linewidth": THICK, "capstyle": "butt"}
        draw(axes, shapes, edgecolor=colour, **(HATCHED if name == "wait" else look))
    seams = [  # between neighbours, where both are wide enough to be told apart
        [(bar.start / size, rows[bar.lane] + half) for half in (-0.3, 0.3)]
        for last, bar in pairwise(bars)
        if last.lane == bar.lane and min(last.length, bar.length) / size > 10 * least
    ]
    draw(axes, seams, edgecolor="white", fill=False, linewidth=0.7)
    points_wide = 72 * WIDTH * 0.75 / whole
    widest = sorted(bars, key=attrgetter("length"), reverse=True)[:LABELS]
    for bar in sorted(widest, key=bars.index):
        room = bar.length / size * points_wide
        if bar.kind not in IDLE and (len(bar.label) + 1) * LETTER < room:
            middle = (bar.start + bar.end) / 2 / size
            look = {"color": LETTERS[paint(bar)], "fontsize": 7.5}
            axes.text(
                middle,
                rows[bar.lane],
                bar.label,
                ha="center",
                va="center_baseline",
                **look,
            )


def draw(axes: Axes, shapes: list[list[tuple]], **look: Any) -> None:
    if not shapes:
        return
    codes = [Path.MOVETO, *[Path.LINETO] * (len(shapes[0]) - 1)]
    if len(codes) > 2:
        codes[-1] = Path.CLOSEPOLY
    path = Path(list(chain(*shapes)), codes * len(shapes))
    path.should_simplify = False
    axes.add_patch(PathPatch(path, **look))


def svg(chart: Chart) -> str:
    """The chart as SVG, the same to the byte for the same chart."""
    written = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure(chart).savefig(
            written, format="svg", metadata={"Date": None, "Creator": None}
        )
    # A hundredth of a point is seen by nobody, and six digits take twice the room.
    return PATH.sub(lambda path: DIGITS.sub(r"\1", path[0]), written.getvalue())
