"""Draw blocks of memory, and bars for a few values, as matplotlib figures for a notebook.

The figures have a white background of their own. They are therefore legible on a dark
page too, and with any style that a program has chosen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cudasim.device.sizes import MIB
from cudasim.hardware import with_article
from cudasim.lab.allocator import Block
from cudasim.lab.devices import modelled_card
from cudasim.lab.showing import MISSING, short

BLUE, GRAY, INK = "#0072B2", "#7d7d7d", "#1d2939"
WIDTH = 7.0  # inches
STYLE: Any = {
    "axes.facecolor": "white",
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.left": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
}
# The share of the picture's width from which a block has its name on it, and its size.
NAMED, SIZED = 0.05, 0.16


@contextmanager
def _figure(height: float) -> Iterator[Any]:
    """Yield a new figure, `height` inches high. Whatever the block adds has our style.

    The figure is created before the style is set. At that moment a notebook chooses how
    to show figures, and this choice would be lost when the style is reset.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        message = "drawing needs matplotlib, which is not installed"
        raise ImportError(f"{message}: 'pip install matplotlib'") from None
    figure = pyplot.figure(
        figsize=(WIDTH, height), layout="constrained", facecolor="white"
    )
    with pyplot.rc_context(STYLE):
        yield figure


def draw_segments(panels: Mapping[str, Sequence[Sequence[Block]]]) -> None:
    """Draw segments as rows of blocks, with a panel for each title: {title: segments}.

    Blocks in use are filled and labelled with their names, and free blocks are hatched.
    All panels have the same scale. Raises ValueError if there is nothing to draw.
    """
    rows = {title: list(segments) for title, segments in panels.items()}
    if not any(rows.values()):
        raise ValueError("draw_segments(): there is no segment to draw")
    heights = [max(len(segments), 1) for segments in rows.values()]
    widest = max(_size(segment) for segments in rows.values() for segment in segments)
    with _figure(0.4 * sum(heights) + 0.5 * len(rows) + 0.4) as figure:
        grid = figure.subplots(
            len(rows), sharex=True, squeeze=False, height_ratios=heights
        )
        for axes, (title, segments) in zip(grid[:, 0], rows.items(), strict=True):
            for row, segment in enumerate(segments):
                _draw_segment(axes, row, segment, widest)
            axes.set(yticks=[], xlim=(0, 1.005 * widest / MIB))
            axes.set_ylim(max(len(segments), 1) - 0.5, -0.5)
            axes.set_title(title, loc="left", fontsize="medium")
            axes.tick_params(bottom=False)
            axes.spines["bottom"].set_visible(False)
        grid[-1, 0].set_xlabel("MiB")
        grid[-1, 0].locator_params(axis="x", integer=True)


def _size(segment: Iterable[Block]) -> int:
    return sum(block.size for block in segment)


def _draw_segment(axes: Any, row: int, segment: Iterable[Block], widest: int) -> None:
    left = 0.0
    for block in segment:
        width = block.size / MIB
        if block.is_free:
            axes.barh(row, width, left=left, color="white", edgecolor=GRAY, hatch="///")
        else:
            axes.barh(row, width, left=left, color=BLUE, edgecolor="white")
        label = _block_label(block, share=block.size / widest)
        if label:
            text = axes.text(left + width / 2, row, label, ha="center", va="center")
            text.set_color(INK if block.is_free else "white")
            if block.is_free:
                text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1})
        left += width


def _block_label(block: Block, share: float) -> str:
    """Return the label of a block that takes this share of the picture's width."""
    size = f"{block.size / MIB:.3g} MiB"
    if share >= SIZED:
        return f"{size} free" if block.is_free else f"{block.name}, {size}"
    return (block.name or "") if share >= NAMED else ""


def chart(
    values: Mapping[str, float | None],
    unit: str = "",
    title: str = "",
    highlight: str | None = None,
) -> None:
    """Draw a bar for each of a few values, from top to bottom, with its number next to it.

    With the unit 's', the values are seconds, which are shown in s, ms or µs, and the axis
    names the card for which they are modelled. None stands for a missing value. If you
    give a name as `highlight`, only its bar is blue, otherwise all bars are. Raises
    ValueError if there are no values.
    """
    if not values:
        raise ValueError("chart(): there are no values")
    with _figure(0.35 * len(values) + 0.7) as figure:
        axes = figure.subplots()
        lengths = [value or 0 for value in values.values()]
        colors = [BLUE if highlight in (None, name) else GRAY for name in values]
        bars = axes.barh(list(values), lengths, color=colors, height=0.65)
        labels = [_label(value, unit) for value in values.values()]
        axes.bar_label(bars, labels, padding=4)
        axes.set_xlim(0, 1.25 * max(lengths) or 1)
        axes.set(xticks=[], xlabel=_whose(unit))
        axes.tick_params(axis="y", length=0)
        axes.axvline(0, color=GRAY, linewidth=0.8)
        axes.spines["bottom"].set_visible(False)
        axes.invert_yaxis()
        axes.set_title(title, loc="left", fontsize="medium")


def _label(value: float | None, unit: str) -> str:
    if value is None:
        return MISSING
    if unit == "s":
        return f"≈ {short(value)}"
    number = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def _whose(unit: str) -> str:
    card = modelled_card() if unit == "s" else ""
    return f"modelled for {with_article(card)}" if card else ""
