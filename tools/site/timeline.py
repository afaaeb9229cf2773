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
from tools.site.parts import load_where, render
from tools.site.speech import punctuated, tr, translate_times

ROW = 36  # pixels: a lane
IDLE = ("wait", "sleep")
# What a lane of one of several processes begins with.
RANK = re.compile(r"^rank \d+: ")
# What a bar is called that stands for several.
SEVERAL = re.compile(r"(.+) and (\d+) others?")
# Units of time in nanoseconds, the largest first.
UNITS = {"s": 10**9, "ms": 10**6, "µs": 10**3, "ns": 1}
TICKS = 4  # on the axis, at least


class Bar(NamedTuple):
    """A bar as the template draws it; times are in nanoseconds."""

    place: int  # of its lane, from the top
    lane: str
    kind: str
    label: str
    start: int
    duration: int
    paint: str
    meaning: str

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
        fault = f"cannot be drawn ({type(error).__name__}: {error})"
        advice = "execute its chapter again"
        raise BookError(f"an output of the type {TIMELINE} {fault}; {advice}") from None


def draw(timeline: dict[str, Any], alt: str, span: int, hatch: str) -> str:
    total = max(timeline["total"], span) or 1
    unit = next(name for name, size in UNITS.items() if total >= size)
    size = UNITS[unit]

    bars = [make_bar(timeline, bar) for bar in timeline["bars"]]
    lanes = []
    summaries = []
    for name, kinds, busy in timeline["lanes"]:
        name = translate_name(name)
        lanes.append((name, kinds, busy))
        summaries.append(f"{name}: {count_kinds(kinds)}")

    return render(
        "timeline.html",
        alt=alt,
        hatch=hatch,
        said=translate_times(timeline["source"]),
        takes=format_number(timeline["total"] / size, 2),
        unit=unit,
        size=size,
        total=total,
        row=ROW,
        ticks=[(text, float(text) * size / total) for text in ticks(total / size)],
        lanes=lanes,
        firsts=begins_rank([name for name, *_ in timeline["lanes"]]),
        bars=bars,
        keys={bar.meaning: bar.paint for bar in bars},
        kinds=kind_words(),
        notes=timeline["notes"],
        summary=punctuated("; ".join(summaries)),
        number=format_number,
    )


def make_bar(timeline: dict[str, Any], bar: list[int]) -> Bar:
    place, name, start, duration, kind_number, count = bar
    lane = timeline["lanes"][place][0]
    kind = timeline["kinds"][kind_number]
    label = translate_name(timeline["names"][name])
    if count > 1:
        label += f" \N{MULTIPLICATION SIGN} {count:,}"
    return Bar(
        place=place,
        lane=translate_name(lane),
        kind=kind,
        label=label,
        start=start,
        duration=duration,
        paint=paint(lane, kind),
        meaning=meaning(translate_name(lane), kind),
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
    return kind_words().get(kind, kind)


def device_of(lane: str) -> str:
    return without_rank(lane).partition(" ")[0]


def without_rank(lane: str) -> str:
    return RANK.sub("", lane)


def begins_rank(lanes: list[str]) -> list[bool]:
    """Return for each lane whether it is the first of another process than the one above."""
    ranks = [name.removesuffix(without_rank(name)) for name in lanes]
    return [False, *(above != rank for above, rank in pairwise(ranks))]


# Words.


def kind_words() -> dict[str, str]:
    return {
        "operation": tr("operation"),
        "kernel": tr("kernel"),
        "copy": tr("copy"),
        "wait": tr("wait"),
        "sleep": tr("sleep"),
    }


def count_kinds(kinds: dict[str, int]) -> str:
    """Say how many bars of each kind there are."""
    one = {
        "operation": tr("1 operation"),
        "kernel": tr("1 kernel"),
        "copy": tr("1 copy"),
        "wait": tr("1 wait"),
        "sleep": tr("1 sleep"),
    }
    more = {
        "operation": tr("{0} operations"),
        "kernel": tr("{0} kernels"),
        "copy": tr("{0} copies"),
        "wait": tr("{0} waits"),
        "sleep": tr("{0} sleeps"),
    }
    counts = []
    for kind, count in kinds.items():
        words = one[kind] if count == 1 else more[kind]
        counts.append(words.format(f"{count:,}"))
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


def format_number(value: float, digits: int = 4) -> str:
    """Write a number to so many digits, or places after the point, never in powers of ten."""
    if not value:
        return "0"
    before_point = len(str(int(value))) if value >= 1 else 0
    return f"{value:.{max(0, digits - before_point)}f}"


def ticks(total: float) -> list[str]:
    """Return at least TICKS places from 0 on, 1, 2 or 5 times a power of ten apart."""
    most = total / TICKS
    power = math.floor(math.log10(most))
    step = next(part for part in (5, 2, 1) if part * 10.0**power <= most) * 10.0**power
    places = max(0, -power)
    return [f"{step * number:.{places}f}" for number in range(int(total / step) + 1)]
