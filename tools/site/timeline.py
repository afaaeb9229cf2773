"""Timelines: the bars that `cudasim.timeline()` leaves in an output, drawn as a part of the page.

The drawing is SVG whose places across are shares of its width: letters keep their size in a
narrow window, and `book/static/timeline.js` zooms by making it wider. Without JavaScript it
stands still. The table below it, row for row the bars, is for those who do not see it; the
script reads there what a bar is.
"""

import hashlib
import json
import math
import re
from itertools import pairwise
from typing import Any, NamedTuple

from sphinx.application import Sphinx

from tools.book.grammar import TIMELINE
from tools.errors import BookError
from tools.site.languages import punctuated, tr, translate_times_source
from tools.site.parts import load_where, render

ROW = 36  # pixels: a lane
IDLE = ("wait", "sleep")
# How the name of a lane begins if there are several processes.
RANK = re.compile(r"^rank \d+: ")
# The name of a bar that stands for several.
SEVERAL = re.compile(r"(.+) and (\d+) others?")
# Units of time in nanoseconds, the largest first.
UNITS = {"s": 10**9, "ms": 10**6, "µs": 10**3, "ns": 1}
TICKS = 4  # on the axis, at least


class Bar(NamedTuple):
    """A bar as the template draws it; times are in nanoseconds."""

    lane_index: int  # from the top
    lane: str
    kind: str
    label: str
    start: int
    duration: int
    paint: str
    meaning: str
    pale: bool  # what it stands for leaves gaps of more than half its length

    @property
    def idle(self) -> bool:
        return self.kind in IDLE


def setup(app: Sphinx) -> None:
    load_where(app, '<figure class="timeline"', "timeline.css", "timeline.js")


def timeline_html(payload: str, alt: str = "", span: int = 0) -> str:
    """Draw a timeline; `alt` says in words what is seen.

    Its axis covers `span` nanoseconds, or more if the timeline takes more.
    """
    mark = hashlib.sha256(f"{payload}{alt}".encode()).hexdigest()[:8]
    try:
        return draw(json.loads(payload), alt, span, hatch=f"wait-{mark}")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BookError(
            f"an output of the type {TIMELINE} cannot be drawn ({reason})",
            advice="execute its chapter again",
        ) from None


def draw(timeline: dict[str, Any], alt: str, span: int, hatch: str) -> str:
    total = max(timeline["total"], span) or 1
    unit, size = unit_of(total)

    names = []
    lanes = []
    summaries = []
    for name, kinds, busy in timeline["lanes"]:
        translated_name = translate_name(name)
        names.append(name)
        lanes.append((translated_name, kinds, busy))
        summaries.append(f"{translated_name}: {count_kinds(kinds)}")
    shares = busy_shares(timeline)
    bars = [make_bar(timeline, bar, shares) for bar in timeline["bars"]]

    return render(
        "timeline.html",
        alt=alt,
        hatch=hatch,
        said=translate_times_source(timeline["source"]),
        takes=format_number(timeline["total"] / size, 2),
        unit=unit,
        size=size,
        total=total,
        row=ROW,
        ticks=ticks(total, size),
        lanes=lanes,
        firsts=begins_rank(names),
        bars=bars,
        keys={bar.meaning: bar.paint for bar in bars},
        kinds={kind: words.name for kind, words in kind_words().items()},
        notes=timeline["notes"],
        has_pale=any(bar.pale for bar in bars),
        summary=punctuated("; ".join(summaries)),
        number=format_number,
    )


def busy_shares(timeline: dict[str, Any]) -> list[float]:
    """Return for each lane in which part of its bars' length it works.

    A bar that stands for many short spans covers the gaps between them as well.
    """
    lengths = [0] * len(timeline["lanes"])
    for lane_index, _, _, duration, kind_number, _ in timeline["bars"]:
        if timeline["kinds"][kind_number] not in IDLE:
            lengths[lane_index] += duration
    shares = []
    for (_, _, busy), length in zip(timeline["lanes"], lengths, strict=True):
        shares.append(busy * timeline["total"] / length if length else 1.0)
    return shares


def make_bar(timeline: dict[str, Any], bar: list[int], shares: list[float]) -> Bar:
    lane_index, name, start, duration, kind_number, count = bar
    lane, *_ = timeline["lanes"][lane_index]
    translated_lane = translate_name(lane)
    kind = timeline["kinds"][kind_number]
    label = translate_name(timeline["names"][name])
    if count > 1:
        label += f" \N{MULTIPLICATION SIGN} {count:,}"
    return Bar(
        lane_index=lane_index,
        lane=translated_lane,
        kind=kind,
        label=label,
        start=start,
        duration=duration,
        paint=paint(lane, kind),
        meaning=meaning(translated_lane, kind),
        pale=count > 1 and kind not in IDLE and shares[lane_index] < 0.5,
    )


# What a bar's colour is, and means.


def paint(lane: str, kind: str) -> str:
    """Return the name of a bar's colour, which `book.css` defines.

    A kernel has the colour of its GPU, all else one by its kind.
    """
    if kind in IDLE:
        return "wait"
    if kind == "copy":
        return "copy"
    if kind != "kernel":
        return "host"
    number = device_of(lane).partition(":")[2]
    return f"gpu{int(number) % 2}" if number.isdigit() else "gpu0"


def meaning(lane: str, kind: str) -> str:
    """Return in words what a bar's colour means: its kind and, of a kernel, its GPU."""
    if kind == "kernel":
        return tr("kernel on {0}").format(device_of(lane))
    words = kind_words().get(kind)
    return words.name if words else kind


def device_of(lane: str) -> str:
    return without_rank(lane).partition(" ")[0]


def without_rank(lane: str) -> str:
    return RANK.sub("", lane)


def begins_rank(lanes: list[str]) -> list[bool]:
    """Return for each lane whether it is the first of another process than the one above."""
    ranks = [name.removesuffix(without_rank(name)) for name in lanes]
    firsts = [False]
    for above, rank in pairwise(ranks):
        firsts.append(above != rank)
    return firsts


# Words.


class KindWords(NamedTuple):
    """What a kind of bar is called, one such bar, and several."""

    name: str
    one: str
    several: str


def kind_words() -> dict[str, KindWords]:
    return {
        "operation": KindWords(
            tr("operation"), tr("1 operation"), tr("{0} operations")
        ),
        "kernel": KindWords(tr("kernel"), tr("1 kernel"), tr("{0} kernels")),
        "copy": KindWords(tr("copy"), tr("1 copy"), tr("{0} copies")),
        "wait": KindWords(tr("wait"), tr("1 wait"), tr("{0} waits")),
        "sleep": KindWords(tr("sleep"), tr("1 sleep"), tr("{0} sleeps")),
    }


def count_kinds(kinds: dict[str, int]) -> str:
    """Say how many bars of each kind there are."""
    counts = []
    for kind, count in kinds.items():
        words = kind_words()[kind]
        if count == 1:
            counts.append(words.one)
        else:
            counts.append(words.several.format(f"{count:,}"))
    return ", ".join(counts)


def translate_name(name: str) -> str:
    """Translate the name of a bar or a lane."""
    several = SEVERAL.fullmatch(name)
    if several:
        first, others = several.groups()
        if others == "1":
            return tr("{0} and 1 other").format(first)
        return tr("{0} and {1} others").format(first, others)
    name = name.replace("copies in", tr("copies in"))
    return name.replace("copies out", tr("copies out"))


# Numbers.


def unit_of(total: int) -> tuple[str, int]:
    """Return the largest unit that a time in nanoseconds holds, with its size."""
    for unit, size in UNITS.items():
        if size <= total:
            return unit, size
    raise ValueError(f"a time of {total} ns")


def format_number(value: float, digits: int = 4) -> str:
    """Write a number to so many digits (decimals, below 1), never in powers of ten."""
    if not value:
        return "0"
    before_point = len(str(int(value))) if value >= 1 else 0
    decimals = max(0, digits - before_point)
    return f"{value:.{decimals}f}"


def ticks(total: int, size: int) -> list[tuple[str, float]]:
    """Return at least TICKS marks of the axis: a number of units, and its share of the axis.

    They are 1, 2 or 5 times a power of ten apart.
    """
    units = total / size
    widest = units / TICKS
    power = math.floor(math.log10(widest))
    steps = [part * 10.0**power for part in (1, 2, 5)]
    step = max(step for step in steps if step <= widest)

    decimals = max(0, -power)
    marks = []
    for number in range(int(units / step) + 1):
        text = f"{step * number:.{decimals}f}"
        marks.append((text, float(text) * size / total))
    return marks
