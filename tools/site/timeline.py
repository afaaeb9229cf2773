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
from typing import TYPE_CHECKING, Any

from tools.errors import BookError
from tools.site.assets import load_where

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MIME = "application/vnd.cudasim.timeline+json"
ROW, BAR, THIN, AXIS = 36, 22, 10, 22  # pixels: a lane, a bar of work, one of waiting, the axis
IDLE = ("wait", "sleep")
RANK = re.compile(r"^rank \d+: ")  # what a lane of one of several processes begins with
LETTER, COLUMN = 6.6, 560  # pixels: a letter in a bar, and the usual width of all bars
UNITS = (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))  # the first that makes it 1 or more
WIDE = 0.012  # the share of the picture from which a bar is set off from its neighbours
TICKS = 4  # at least, on the axis
PLURALS = {"copy": "copies"}


def setup(app: "Sphinx") -> dict[str, bool]:
    """Let the pages with a timeline, and no others, load the style and the script."""
    load_where(app, '<figure class="timeline"', "timeline.css", "timeline.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def timeline_html(payload: str, alt: str = "") -> str:
    """A timeline as a part of a page; `alt` says what is seen on it.

    Raises BookError if `payload` is not that of a timeline.
    """
    try:
        mark = hashlib.sha256(f"{payload}{alt}".encode()).hexdigest()[:8]
        return _figure(json.loads(payload), alt, f"wait-{mark}")
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
    """The name of a lane without its rank."""
    return RANK.sub("", lane)


def _firsts(lanes: list) -> list[int]:
    """The places of the lanes at which another rank begins."""
    ranks = [name.removesuffix(_own(name)) for name, *_ in lanes]
    return [place for place in range(1, len(ranks)) if ranks[place] != ranks[place - 1]]


def _figure(timeline: dict[str, Any], alt: str, hatch: str) -> str:
    total = timeline["total"] or 1
    unit, size = next((name, size) for name, size in UNITS if total >= size)
    title = f"Timeline, {escape(timeline['source'])}: ≈ {_number(total / size, 3)} {unit}"
    notes = "".join(f"<p>{escape(note)}</p>\n" for note in timeline["notes"])
    return "\n".join(
        [
            f'<figure class="timeline" data-total="{total / size!r}">',
            f"<figcaption>{title}</figcaption>",
            _key(timeline),
            '<div class="timeline-rows">',
            _lanes(timeline["lanes"], unit),
            _view(timeline, total, size, escape(alt) or f"{title}.", hatch),
            "</div>",
            '<p class="timeline-said" role="status"></p>',
            notes + _table(timeline, unit, size, title),
            "</figure>",
        ]
    )


def _key(timeline: dict[str, Any]) -> str:
    """What the colours mean, and the buttons, which are seen where the script runs."""
    names = {}
    for lane, _, _, _, kind, _ in timeline["bars"]:
        place = timeline["lanes"][lane][0], timeline["kinds"][kind]
        names[meaning(*place)] = paint(*place)
    items = "".join(f'<li class="{name}">{escape(word)}</li>' for word, name in names.items())
    buttons = "".join(
        f'<button type="button" data-zoom="{zoom}" aria-label="{name}">{sign}</button>'
        for zoom, name, sign in [
            ("0.5", "Zoom out", "\N{MINUS SIGN}"),
            ("2", "Zoom in", "+"),
            ("0", "Show all", "All"),
        ]
    )
    tools = f'<div class="timeline-tools" role="group" aria-label="Zoom">{buttons}</div>'
    return f'<div class="timeline-head"><ul>{items}</ul>{tools}</div>'


def _lanes(lanes: list, unit: str) -> str:
    """The names of the lanes, beside their bars, with the share of the time that each is busy."""
    firsts, first = _firsts(lanes), ' class="first-of-rank"'
    rows = "".join(
        f"<div{first if place in firsts else ''}><b>{escape(name)}</b> "
        f"<span>≈ {100 * busy:.0f} % busy</span></div>"
        for place, (name, _, busy) in enumerate(lanes)
    )
    return f'<div class="timeline-lanes">{rows}<div>≈ {unit}</div></div>'


def _view(timeline: dict[str, Any], total: int, size: int, alt: str, hatch: str) -> str:
    """The bars over their axis. `hatch` is the id, unique on a page, of the pattern of waits."""
    lines = len(timeline["lanes"])
    high = ROW * lines + AXIS
    drawn = [
        f'<div class="timeline-view"><svg role="img" height="{high}" width="100%" '
        f'aria-label="{alt} The table below has its numbers.">',
        f'<pattern id="{hatch}" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M1 0v5"/></pattern>',
        '<g class="timeline-axis">',
    ]
    for tick in _ticks(total / size):
        share = float(tick) * size / total
        place, end = f"{100 * share:.6g}%", "first" if not share else "last" if share > 0.95 else ""
        drawn.append(
            f'<line x1="{place}" x2="{place}" y1="0" y2="{high - AXIS + 4}"/>'
            f'<text class="{end}" x="{place}" y="{high - 6}">{tick}</text>'
        )
    drawn.append("</g>")
    for place in _firsts(timeline["lanes"]):
        drawn.append(
            f'<line class="between-ranks" x1="0" x2="100%" y1="{ROW * place}" y2="{ROW * place}"/>'
        )
    for lane, name, start, duration, kind, count in timeline["bars"]:
        style, name_of_lane = timeline["kinds"][kind], timeline["lanes"][lane][0]
        thick = THIN if style in IDLE else BAR
        fill = f' fill="url(#{hatch})"' if style in IDLE else ""
        style = f"{style} {paint(name_of_lane, style)}"
        style += " wide" if duration > WIDE * total else ""
        x, width = 100 * start / total, 100 * duration / total
        top = ROW * lane + (ROW - thick) // 2
        drawn.append(
            f'<rect class="{escape(style)}" x="{x:.6g}%" width="{width:.6g}%" y="{top}" '
            f'height="{thick}"{fill}/>'
        )
        label = _label(timeline["names"][name], count)
        if thick == BAR and len(label) * LETTER + 8 < width / 100 * COLUMN:
            drawn.append(
                f'<svg class="{style}" aria-hidden="true" x="{x:.6g}%" width="{width:.6g}%" '
                f'y="{top}" height="{BAR}">'
                f'<text x="5" y="15">{escape(label)}</text></svg>'
            )
    return "\n".join([*drawn, "</svg></div>"])


def _table(timeline: dict[str, Any], unit: str, size: int, title: str) -> str:
    """The same as a table: a row for each bar, in the same order, and one line for each lane."""
    lanes = [name for name, *_ in timeline["lanes"]]
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in ("Lane", "What", "Kind", f"Begins, ≈ {unit}", f"Takes, ≈ {unit}")
    )
    rows = []
    for lane, name, start, duration, kind, count in timeline["bars"]:
        label = _label(timeline["names"][name], count)
        texts = lanes[lane], label, timeline["kinds"][kind]
        cells = [*map(escape, texts), _number(start / size), _number(duration / size)]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    summary = "; ".join(f"{escape(name)}: {_counts(kinds)}" for name, kinds, _ in timeline["lanes"])
    return "\n".join(
        [
            "<details><summary>As a table</summary>",
            f'<div class="timeline-table" role="group" tabindex="0" aria-label="{title}, a table">',
            f"<table><caption>{title}. {summary}.</caption>",
            f"<thead><tr>{heads}</tr></thead><tbody>",
            *rows,
            "</tbody></table></div></details>",
        ]
    )


def _label(name: str, count: int) -> str:
    return f"{name} \N{MULTIPLICATION SIGN} {count:,}" if count > 1 else name


def _counts(kinds: dict[str, int]) -> str:
    """`3 kernels, 1 copy`."""
    words = {kind: kind if n == 1 else PLURALS.get(kind, f"{kind}s") for kind, n in kinds.items()}
    return ", ".join(f"{n:,} {escape(words[kind])}" for kind, n in kinds.items())


def _number(value: float, digits: int = 4) -> str:
    """A number to so many digits, or places after the point, never in powers of ten."""
    before = len(str(int(value))) if value >= 1 else 0
    return f"{value:.{max(0, digits - before)}f}" if value else "0"


def _ticks(total: float) -> list[str]:
    """From 0 on, at least TICKS places that are 1, 2 or 5 times a power of ten apart."""
    power = math.floor(math.log10(total / TICKS))
    step = next(part for part in (5, 2, 1) if part * 10.0**power <= total / TICKS) * 10.0**power
    return [f"{step * i:.{max(0, -power)}f}" for i in range(int(total / step) + 1)]
