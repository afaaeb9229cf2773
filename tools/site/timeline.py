"""Timelines: the bars that `cudasim.timeline()` leaves in an output, drawn as a part of the page.

The drawing is SVG whose places across are shares of its width, so that letters keep their size
in a narrow window and `book/static/timeline.js` zooms by making it wider. Without JavaScript it
stands still. A table below it, row for row the bars, is for those who do not see it; the script
reads from there what a bar is.
"""

import hashlib
import json
import math
import re
from html import escape
from typing import Any

from sphinx.application import Sphinx

from tools.errors import BookError
from tools.site.assets import load_where
from tools.site.templates import render

MIME = "application/vnd.cudasim.timeline+json"
ROW, BAR, THIN, AXIS = 36, 22, 10, 22  # pixels: a lane, a bar of work, one of waiting, the axis
IDLE = ("wait", "sleep")
RANK = re.compile(r"^rank \d+: ")  # what a lane of one of several processes begins with
LETTER, COLUMN = 6.6, 560  # pixels: a letter in a bar, and the usual width of all bars
UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))  # the first that makes it 1 or more
WIDE = 0.012  # the share of the picture from which a bar is set off from its neighbours
TICKS = 4  # at least, on the axis
PLURALS = {"copy": "copies"}


def setup(app: Sphinx) -> None:
    load_where(app, '<figure class="timeline"', "timeline.css", "timeline.js")


def timeline_html(payload: str, alt: str = "", span: int = 0) -> str:
    """A timeline as a part of a page; `alt` says what is seen on it.

    Its picture shows `span` nanoseconds, or as many as it takes if those are more.
    Raises BookError if `payload` is not that of a timeline.
    """
    try:
        mark = hashlib.sha256(f"{payload}{alt}".encode()).hexdigest()[:8]
        return render(
            "timeline.html", hatch=f"wait-{mark}", **_shown(json.loads(payload), alt, span)
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise BookError(
            f"an output of the type {MIME} cannot be drawn ({type(error).__name__}: {error}); "
            "execute its chapter again"
        ) from None


def paint(lane: str, kind: str) -> str:
    """The name of a bar's colour, in `book.css` too: a copy, a wait, or else whose work it is."""
    if kind in IDLE:
        return "wait"
    if kind != "kernel":
        return "copy" if kind == "copy" else "host"
    number = _own(lane).partition(" ")[0].partition(":")[2]
    return f"gpu{int(number) % 2}" if number.isdigit() else "gpu0"


def meaning(lane: str, kind: str) -> str:
    """What a bar's colour means, in words: its kind and, of a kernel, the GPU that it runs on."""
    return f"kernel on {_own(lane).partition(' ')[0]}" if kind == "kernel" else kind


def _own(lane: str) -> str:
    return RANK.sub("", lane)


def _shown(timeline: dict[str, Any], alt: str, span: int) -> dict[str, Any]:
    """What the template draws. Places across are shares of the picture's width."""
    total = max(timeline["total"], span) or 1
    unit, size = next((name, size) for name, size in UNITS if total >= size)
    title = (
        f"Timeline, {escape(timeline['source'])}: ≈ {_number(timeline['total'] / size, 3)} {unit}"
    )
    lanes, rank = [], None
    for place, (name, _, busy) in enumerate(timeline["lanes"]):
        before, rank = rank, name.removesuffix(_own(name))
        first = before is not None and rank != before  # of another rank than the lane above
        lanes.append(
            {"name": name, "busy": f"{100 * busy:.0f}", "first": first, "top": ROW * place}
        )
    ticks = []
    for text in _ticks(total / size):
        share = float(text) * size / total
        end = "last" if share > 0.95 else "" if share else "first"
        ticks.append({"text": text, "x": _percent(share), "end": end})
    bars = [_bar(timeline, total, size, bar) for bar in timeline["bars"]]
    return {
        "total": repr(total / size),
        "unit": unit,
        "title": title,
        "alt": escape(alt) or f"{title}.",
        "keys": {meaning(bar["lane"], bar["kind"]): bar["paint"] for bar in bars},
        "lanes": lanes,
        "high": ROW * len(lanes) + AXIS,
        "ticks": ticks,
        "bars": bars,
        "notes": timeline["notes"],
        "summary": "; ".join(f"{name}: {_counts(kinds)}" for name, kinds, _ in timeline["lanes"]),
    }


def _bar(timeline: dict[str, Any], total: int, size: int, bar: list[int]) -> dict[str, Any]:
    place, name, start, duration, number, count = bar
    lane, kind = timeline["lanes"][place][0], timeline["kinds"][number]
    colour, idle = paint(lane, kind), kind in IDLE
    high = THIN if idle else BAR
    label = _label(timeline["names"][name], count)
    return {
        "lane": lane,
        "kind": kind,
        "label": label,
        "paint": colour,
        "style": f"{kind} {colour}{' wide' if duration > WIDE * total else ''}",
        "idle": idle,
        "lettered": not idle and len(label) * LETTER + 8 < duration / total * COLUMN,
        "x": _percent(start / total),
        "width": _percent(duration / total),
        "y": ROW * place + (ROW - high) // 2,
        "height": high,
        "begins": _number(start / size),
        "takes": _number(duration / size),
    }


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def _label(name: str, count: int) -> str:
    return f"{name} \N{MULTIPLICATION SIGN} {count:,}" if count > 1 else name


def _counts(kinds: dict[str, int]) -> str:
    """`3 kernels, 1 copy`."""
    words = {kind: kind if n == 1 else PLURALS.get(kind, f"{kind}s") for kind, n in kinds.items()}
    return ", ".join(f"{n:,} {words[kind]}" for kind, n in kinds.items())


def _number(value: float, digits: int = 4) -> str:
    """A number to so many digits, or places after the point, never in powers of ten."""
    before = len(str(int(value))) if value >= 1 else 0
    return f"{value:.{max(0, digits - before)}f}" if value else "0"


def _ticks(total: float) -> list[str]:
    """From 0 on, at least TICKS places that are 1, 2 or 5 times a power of ten apart."""
    power = math.floor(math.log10(total / TICKS))
    step = next(part for part in (5, 2, 1) if part * 10.0**power <= total / TICKS) * 10.0**power
    return [f"{step * i:.{max(0, -power)}f}" for i in range(int(total / step) + 1)]
