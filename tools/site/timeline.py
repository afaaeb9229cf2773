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
from typing import Any

from sphinx.application import Sphinx

from tools.book.grammar import TIMELINE
from tools.errors import BookError
from tools.site.assets import load_where
from tools.site.speech import facts, punctuated, tr
from tools.site.templates import render

ROW = 36  # pixels: a lane
IDLE = ("wait", "sleep")
RANK = re.compile(r"^rank \d+: ")  # what a lane of one of several processes begins with
OTHERS = re.compile(
    r"(.+) and (\d+) others?"
)  # what a bar is called that stands for several
UNITS = (
    ("s", 10**9),
    ("ms", 10**6),
    ("µs", 10**3),
    ("ns", 1),
)  # the first that makes it 1 or more
TICKS = 4  # at least, on the axis


def setup(app: Sphinx) -> None:
    load_where(app, '<figure class="timeline"', "timeline.css", "timeline.js")


def timeline_html(payload: str, alt: str = "", span: int = 0) -> str:
    """A timeline that shows `span` nanoseconds, if it takes no more; `alt` says what is seen."""
    try:
        mark = hashlib.sha256(f"{payload}{alt}".encode()).hexdigest()[:8]
        shown = _shown(json.loads(payload), span) | {
            "alt": alt,
            "hatch": f"wait-{mark}",
        }
        return render("timeline.html", **shown)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        fault = f"cannot be drawn ({type(error).__name__}: {error}); execute its chapter again"
        raise BookError(f"an output of the type {TIMELINE} {fault}") from None


def paint(lane: str, kind: str) -> str:
    """The name of a bar's colour, in `book.css` too: a copy, a wait, or else whose work it is."""
    if kind != "kernel":
        return "wait" if kind in IDLE else "copy" if kind == "copy" else "host"
    number = _own(lane).partition(" ")[0].partition(":")[2]
    return f"gpu{int(number) % 2}" if number.isdigit() else "gpu0"


def meaning(lane: str, kind: str) -> str:
    """What a bar's colour means, in words: its kind and, of a kernel, the GPU that it runs on."""
    if kind == "kernel":
        return tr("kernel on {0}").format(_own(lane).partition(" ")[0])
    return kind_words().get(kind, kind)


def kind_words() -> dict[str, str]:
    words = {"operation": tr("operation"), "kernel": tr("kernel"), "copy": tr("copy")}
    return words | {"wait": tr("wait"), "sleep": tr("sleep")}


def said_of(times: str) -> str:
    """What times are, modelled or measured, in the language of the site."""
    hardware = times.removeprefix("measured on ")
    return (
        tr(times)
        if hardware == times
        else tr("measured on {0}").format(facts(hardware))
    )


def _own(lane: str) -> str:
    return RANK.sub("", lane)


def _told(name: str) -> str:
    """The name of a bar or a lane, in the language of the site."""
    if found := OTHERS.fullmatch(name):
        one, more = tr("{0} and 1 other"), tr("{0} and {1} others")
        return (one if found[2] == "1" else more).format(*found.groups())
    return name.replace("copies in", tr("copies in")).replace(
        "copies out", tr("copies out")
    )


def _shown(timeline: dict[str, Any], span: int) -> dict[str, Any]:
    """What the template draws. Places across are shares of the picture's width."""
    total = max(timeline["total"], span) or 1
    unit, size = next((name, size) for name, size in UNITS if total >= size)
    ranks = [name.removesuffix(_own(name)) for name, *_ in timeline["lanes"]]
    bars = [_bar(timeline, bar) for bar in timeline["bars"]]
    lanes = [(_told(name), kinds, busy) for name, kinds, busy in timeline["lanes"]]
    shown = {
        "lanes": lanes,
        "notes": timeline["notes"],
        "total": total,
        "unit": unit,
        "size": size,
    }
    shown |= {"bars": bars, "number": _number, "row": ROW, "kinds": kind_words()}
    return shown | {
        "takes": _number(timeline["total"] / size, 2),
        "keys": {meaning(bar["lane"], bar["kind"]): bar["paint"] for bar in bars},
        "firsts": [
            rank != above for rank, above in zip(ranks, ranks[:1] + ranks, strict=False)
        ],
        "ticks": [(text, float(text) * size / total) for text in _ticks(total / size)],
        "said": said_of(timeline["source"]),
        "summary": punctuated(
            "; ".join(f"{name}: {_counts(kinds)}" for name, kinds, _ in lanes)
        ),
    }


def _bar(timeline: dict[str, Any], bar: list[int]) -> dict[str, Any]:
    place, name, start, duration, number, count = bar
    lane, kind = timeline["lanes"][place][0], timeline["kinds"][number]
    label = _told(timeline["names"][name]) + f" \N{MULTIPLICATION SIGN} {count:,}" * (
        count > 1
    )
    said = {
        "lane": _told(lane),
        "kind": kind,
        "label": label,
        "paint": paint(lane, kind),
    }
    return {
        "place": place,
        "start": start,
        "duration": duration,
        "idle": kind in IDLE,
    } | said


def _counts(kinds: dict[str, int]) -> str:
    one = {
        "operation": tr("1 operation"),
        "kernel": tr("1 kernel"),
        "copy": tr("1 copy"),
    }
    one |= {"wait": tr("1 wait"), "sleep": tr("1 sleep")}
    more = {"operation": tr("{0} operations"), "kernel": tr("{0} kernels")}
    more |= {
        "copy": tr("{0} copies"),
        "wait": tr("{0} waits"),
        "sleep": tr("{0} sleeps"),
    }
    counts = (((one if n == 1 else more)[kind], n) for kind, n in kinds.items())
    return ", ".join(said.format(f"{n:,}") for said, n in counts)


def _number(value: float, digits: int = 4) -> str:
    """A number to so many digits, or places after the point, never in powers of ten."""
    before = len(str(int(value))) if value >= 1 else 0
    return f"{value:.{max(0, digits - before)}f}" if value else "0"


def _ticks(total: float) -> list[str]:
    """From 0 on, at least TICKS places that are 1, 2 or 5 times a power of ten apart."""
    power = math.floor(math.log10(total / TICKS))
    step = (
        next(part for part in (5, 2, 1) if part * 10.0**power <= total / TICKS)
        * 10.0**power
    )
    return [f"{step * i:.{max(0, -power)}f}" for i in range(int(total / step) + 1)]
