"""The Gantt chart of a timeline, drawn with matplotlib.

No other module imports matplotlib, so that everything else does without it.
"""

import io
import re
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from cudasim.clock.bars import IDLE, Bar, Chart, Lane, split_rank
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

# Readers with any kind of colour vision can tell them apart: all but the host's grey are
# from Okabe and Ito, Color Universal Design, 2008. The contrast with white is at least 3,
# and the picture brings its own background. Waits are hatched besides, and lanes have
# names.
COLOURS = {
    "host": "#667085",
    "gpu0": "#0072b2",
    "gpu1": "#d55e00",
    "copy": "#009e73",
    "wait": "#cc79a7",
}
# Of the words in a bar of each colour.
LETTERS = {"host": "white", "gpu0": "white", "gpu1": "black", "copy": "black"}

# Inches.
WIDTH = 7.2  # of the picture
ROW = 0.38  # the height of a lane
EDGES = 1.2  # the height of what is above and below the lanes
LINE = 0.15  # the height of a line of words
# Points.
THICK = 14  # a bar of work, which is a line: that takes half the bytes of a rectangle
LETTER = 5.5  # the width of a letter in a bar, with room at the ends
# Shares.
THIN = 0.13  # half a bar of waiting, of the height of its lane
SEAM = 0.3  # half the line between two bars, of the height of their lane
AXES = 0.75  # what the axes have of the picture's width, about

SHORTEST = 1500  # the axes' width over this is the shortest bar, so that it is seen
LABELS = 24  # the most that a picture holds
HATCHED = {"facecolor": "white", "hatch": "////////", "linewidth": 0.7}
SOLID = {"fill": False, "linewidth": THICK, "capstyle": "butt"}
STYLE = {
    "svg.hashsalt": "cudasim",
    "svg.fonttype": "none",
    "font.size": 9,
    "hatch.linewidth": 0.8,
}
PATH_DATA = re.compile(r' d="[^"]*"')
LONG_FRACTION = re.compile(r"(\.\d\d)\d+")

Shape = list[tuple[float, float]]


@dataclass
class Plot:
    """The axes of a picture, and where on them a bar lies."""

    axes: Axes
    rows: dict[str, int]  # of the lanes, by name
    unit: float  # nanoseconds of one unit of the axis of time

    def x(self, time: float) -> float:
        return time / self.unit

    @property
    def shortest(self) -> float:
        """The length of the shortest bar."""
        return self.axes.get_xlim()[1] / SHORTEST


def figure(chart: Chart) -> Figure:
    """Draw lanes as rows over an axis of time; waiting is a thin, hatched bar."""
    height = EDGES + ROW * len(chart.lanes) + LINE * len(chart.notes)
    rows = {lane.name: row for row, lane in enumerate(chart.lanes)}
    with matplotlib.rc_context(STYLE):
        drawing = Figure((WIDTH, height), layout="constrained", facecolor="white")
        axes = drawing.add_subplot(facecolor="white", axisbelow=True)
        plot = Plot(axes, rows, unit=1e6 if chart.length >= 1e6 else 1e3)
        _draw_axes(plot, chart)
        drawing.suptitle(f"Timeline, {chart.source}", x=0.01, ha="left", fontsize=10)
        _draw_borders_of_ranks(axes, chart.lanes)

        _draw_bars(plot, chart.bars)
        _draw_seams(plot, chart.bars)
        _draw_labels(plot, chart.bars)
        _draw_legend(drawing, chart.bars)
    return drawing


def paint(bar: Bar) -> str:
    """Return the name of a bar's colour."""
    if bar.kind in IDLE:
        return "wait"
    if bar.kind == "copy":
        return "copy"
    if bar.kind != "kernel":
        return "host"
    _, _, number = bar.device.partition(":")
    if not number.isdigit():
        return "gpu0"
    return f"gpu{int(number) % 2}"


def meaning(bar: Bar) -> str:
    """Return what the colour of a bar means, for the legend."""
    return f"kernel on {bar.device}" if bar.kind == "kernel" else bar.kind


def _draw_axes(plot: Plot, chart: Chart) -> None:
    lanes = chart.lanes
    names = [f"{lane.name}\n≈ {100 * lane.busy:.0f} % busy" for lane in lanes]
    unit = "ms" if plot.unit == 1e6 else "µs"
    label = "\n".join([f"≈ {unit}", *chart.notes])

    axes = plot.axes
    axes.set_xlim(0, plot.x(chart.length or 1))
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_yticks(range(len(lanes)), names, fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(label)


def _draw_borders_of_ranks(axes: Axes, lanes: list[Lane]) -> None:
    ranks = [split_rank(lane.name)[0] for lane in lanes]
    for row, (above, below) in enumerate(pairwise(ranks)):
        if above != below:
            axes.axhline(row + 0.5, color=COLOURS["host"], linewidth=1.2)


def _draw_bars(plot: Plot, bars: list[Bar]) -> None:
    """Draw the bars of each colour as one path."""
    for name, colour in COLOURS.items():
        outlines = [_outline(plot, bar) for bar in bars if paint(bar) == name]
        look = HATCHED if name == "wait" else SOLID
        _draw(plot.axes, outlines, edgecolor=colour, **look)


def _outline(plot: Plot, bar: Bar) -> Shape:
    """Return the outline of a bar of waiting, or the line of any other."""
    row = plot.rows[bar.lane]
    start = plot.x(bar.start)
    end = max(plot.x(bar.end), start + plot.shortest)
    if paint(bar) != "wait":
        return [(start, row), (end, row)]
    low = row - THIN
    high = row + THIN
    return [(start, low), (end, low), (end, high), (start, high), (start, low)]


def _draw_seams(plot: Plot, bars: list[Bar]) -> None:
    """Part neighbours that are both wide enough to be told apart."""
    seams = []
    for last, bar in pairwise(bars):
        narrower = plot.x(min(last.length, bar.length))
        if last.lane == bar.lane and narrower > 10 * plot.shortest:
            x = plot.x(bar.start)
            row = plot.rows[bar.lane]
            seams.append([(x, row - SEAM), (x, row + SEAM)])
    _draw(plot.axes, seams, edgecolor="white", fill=False, linewidth=0.7)


def _draw_labels(plot: Plot, bars: list[Bar]) -> None:
    """Name the widest bars that have room for their name."""
    points = 72 * WIDTH * AXES / plot.axes.get_xlim()[1]  # for a unit of time
    widest = sorted(bars, key=attrgetter("length"), reverse=True)[:LABELS]
    for bar in sorted(widest, key=bars.index):
        room = plot.x(bar.length) * points
        width = (len(bar.label) + 1) * LETTER
        if bar.kind not in IDLE and width < room:
            _draw_label(plot, bar)


def _draw_label(plot: Plot, bar: Bar) -> None:
    middle = plot.x((bar.start + bar.end) / 2)
    plot.axes.text(
        middle,
        plot.rows[bar.lane],
        bar.label,
        ha="center",
        va="center_baseline",
        color=LETTERS[paint(bar)],
        fontsize=7.5,
    )


def _draw_legend(drawing: Figure, bars: list[Bar]) -> None:
    colours = {meaning(bar): paint(bar) for bar in bars}
    marks = []
    for name in colours.values():
        if name == "wait":
            mark = Patch(edgecolor=COLOURS["wait"], **HATCHED)
        else:
            mark = Line2D([], [], color=COLOURS[name], linewidth=8)
        marks.append(mark)
    drawing.legend(
        marks, colours, loc="outside lower left", ncols=len(colours), frameon=False
    )


def _draw(axes: Axes, shapes: list[Shape], **look: Any) -> None:
    """Draw shapes of one form as one path; those of more than two points are closed."""
    if not shapes:
        return
    length = len(shapes[0])
    codes = [Path.MOVETO] + [Path.LINETO] * (length - 1)
    if length > 2:
        codes[-1] = Path.CLOSEPOLY
    points = list(chain.from_iterable(shapes))
    path = Path(points, codes * len(shapes))
    path.should_simplify = False
    axes.add_patch(PathPatch(path, **look))


def svg(chart: Chart) -> str:
    """Return the chart as SVG, the same to the byte for the same chart."""
    output = io.StringIO()
    metadata = {"Date": None, "Creator": None}
    with matplotlib.rc_context(STYLE):
        figure(chart).savefig(output, format="svg", metadata=metadata)
    return PATH_DATA.sub(_shorten, output.getvalue())


def _shorten(path: re.Match) -> str:
    # Nobody sees a hundredth of a point, and six digits take twice the room.
    return LONG_FRACTION.sub(r"\1", path[0])
