"""A timeline: what Python, the streams and the copy engines did, lane by lane.

Its times are modelled or measured, in whole nanoseconds. Times in texts and pictures
follow the sign `≈`.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from cudasim.clock import trace
from cudasim.clock.bars import IDLE, Bar, Chart, Lane, bars_of, by_lane, split_rank
from cudasim.clock.clock import SECOND, Span
from cudasim.words import WORDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THREADS = 16  # of Python that have a lane each: a program may start thousands
OTHERS = "Python, other threads"
MIME = "application/vnd.cudasim.timeline+json"
PLURALS = {"copy": "copies"}
NOTHING = "nothing was recorded: no operation of PyTorch ran"
_gather_numbers = itertools.count()  # of the calls of `gather` in this process


class Table(list):
    """Rows of (lane, name, start in seconds, duration in seconds); it prints as a table."""

    def __repr__(self) -> str:
        rows = [("lane", "name", "start", "duration")]
        for lane, name, start, duration in self:
            rows.append((lane, name, format_time(start, 3), format_time(duration)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = map(str.ljust, row, widths)
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


class Timeline:
    """The spans of some lines of a program, by lane. In a notebook it displays itself.

    A timeline that holds nothing raises RuntimeError whatever it is asked, and says why
    it is empty.
    """

    def __init__(self) -> None:
        self.empty("nothing was recorded")

    def empty(self, reason: str) -> None:
        self.fill((), "", reason=reason)

    def fill(
        self,
        spans: Iterable[Span],
        source: str,
        notes: Sequence[str] = (),
        reason: str = NOTHING,
    ) -> None:
        """Hold `spans`; `source` says what they were modelled for, or measured on.

        `reason` says why there are none, if there are none.
        """
        self._spans = sorted(spans, key=attrgetter("start", "lane"))
        crowded = _crowded_lanes(self._spans)
        for number, span in enumerate(self._spans):
            if span.lane in crowded:
                self._spans[number] = replace(span, lane=OTHERS)
        self._bars: list[Bar] | None = None
        self._reason = reason
        self.source = source
        self.notes = list(notes)
        if crowded:
            note = f"{len(crowded):,} more threads of Python share a lane"
            self.notes.append(note)

    @property
    def spans(self) -> list[Span]:
        """What was recorded, in the order of its beginning; times are in nanoseconds."""
        if not self._spans:
            raise RuntimeError(f"cudasim.timeline(): {self._reason}")
        return self._spans

    def gather(self) -> "Timeline":
        """Return the timelines of all ranks of a run, side by side.

        Every rank has to call it, and each gets the whole. The lanes of rank 0 are
        called `rank 0: Python` and so on. Raises RuntimeError outside of a process
        group, and for measured times.
        """
        if self._spans and not self.modelled:
            raise RuntimeError(WORDS["times"]["measured"])
        own = {
            "spans": [astuple(span) for span in self._spans],
            "source": self.source,
            "notes": self.notes,
        }
        ranks = _exchange(own)

        spans = []
        notes = []
        sources = []
        for rank, theirs in enumerate(ranks):
            for lane, *fields in theirs["spans"]:
                spans.append(Span(f"rank {rank}: {lane}", *fields))
            for note in theirs["notes"]:
                notes.append(f"rank {rank}: {note}")
            if theirs["source"] and theirs["source"] not in sources:
                sources.append(theirs["source"])

        gathered = Timeline()
        if spans:
            source = f"{' and '.join(sources)}, {len(ranks)} ranks"
            gathered.fill(spans, source, notes)
        return gathered

    @classmethod
    def load(cls, path: str | Path) -> "Timeline":
        """Return the timeline that `save` wrote. Raises ValueError for another file."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        timeline = cls()
        try:
            about = content["otherData"]
            timeline.fill(trace.reread(content), about["source"], about["notes"])
        except (KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{path}: not a timeline that save() has written"
            ) from None
        return timeline

    @property
    def modelled(self) -> bool:
        return self.source.startswith("modelled")

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes: Python's first, then each GPU's streams and copies."""
        return sorted({span.lane for span in self.spans}, key=_lane_order)

    @property
    def start(self) -> int:
        return self.spans[0].start

    @property
    def length(self) -> int:
        """The nanoseconds from the first beginning to the last end."""
        return max(span.end for span in self.spans) - self.start

    @property
    def total(self) -> float:
        """The same in seconds."""
        return self.length / SECOND

    def busy(self, name: str) -> float:
        """Return the share of the total, 0 to 1, in which a lane or a GPU works.

        A GPU, such as `cuda:0`, works while one of its lanes does. Waiting and sleeping
        are not work. Raises ValueError for an unknown name.
        """
        own = [span for span in self.spans if f"{span.lane} ".startswith(f"{name} ")]
        if not own:
            lanes = ", ".join(self.lanes)
            raise ValueError(f"{name!r}: no such lane; there are {lanes}")
        busy = 0
        reached = 0  # spans of one GPU overlap: up to here they are counted
        for span in own:
            if span.kind not in IDLE:
                busy += max(0, span.end - max(span.start, reached))
                reached = max(reached, span.end)
        return busy / (self.length or 1)

    def table(self) -> Table:
        """Return every span as a row: lane, name, start and duration in seconds."""
        begin = self.start
        table = Table()
        for span in by_lane(self.spans, self.lanes):
            start = (span.start - begin) / SECOND
            table.append((span.lane, span.name, start, span.length / SECOND))
        return table

    def bars(self) -> list[Bar]:
        """Return the spans as a picture shows them; neighbours are merged if need be."""
        if self._bars is None:
            self._bars = bars_of(self.spans, self.lanes)
        return self._bars

    def figure(self) -> "Figure":
        """Draw a Gantt chart. Raises ModuleNotFoundError without matplotlib."""
        from cudasim.clock import drawing

        return drawing.figure(self.chart())

    def chart(self) -> Chart:
        """Return all that a picture of the timeline shows."""
        bars = self.bars()
        notes = list(self.notes)
        if len(bars) != len(self.spans):
            drawn = "1 bar" if len(bars) == 1 else f"{len(bars):,} bars"
            spans = f"{len(self.spans):,} spans"
            notes.append(f"{drawn} for {spans}: neighbours are merged")
        return Chart(bars, self.summary(), self.length, self.source, notes)

    def save(self, path: str | Path) -> None:
        """Write Chrome's trace format, which chrome://tracing and ui.perfetto.dev open."""
        content = trace.write(self.spans, self.lanes, self.source, self.notes)
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    def __str__(self) -> str:
        origin = self.source if self.modelled else "measured"
        lines = [f"timeline, {origin}: {format_time(self.total)}"]
        for lane in self.summary():
            counts = [_count(number, kind) for kind, number in lane.counts.items()]
            time = format_time(self.total * lane.busy)
            share = f"{100 * lane.busy:.0f} %"
            lines.append(f"{lane.name}: {', '.join(counts)}; busy {time}, ≈ {share}")
        return "\n".join(lines + self.notes)

    def __repr__(self) -> str:
        return str(self) if self._spans else f"cudasim.timeline(): {self._reason}"

    def summary(self) -> list[Lane]:
        """Return for each lane what it did and how busy it was."""
        counts = {lane: Counter() for lane in self.lanes}
        for span in self.spans:
            counts[span.lane][span.kind] += 1
        return [Lane(name, dict(counts[name]), self.busy(name)) for name in counts]

    def payload(self) -> str:
        """Return the bars and the summary as JSON, for a page that draws them itself.

        Bars name their lane, name and kind by its place in the lists beside them.
        """
        chart = self.chart()
        lanes = []
        lane_numbers = {}
        for lane in chart.lanes:
            lane_numbers[lane.name] = len(lanes)
            lanes.append((lane.name, lane.counts, round(lane.busy, 4)))

        names: dict[str, int] = {}
        kinds: dict[str, int] = {}
        bars = []
        for bar in chart.bars:
            lane_number = lane_numbers[bar.lane]
            name = names.setdefault(bar.name, len(names))
            kind = kinds.setdefault(bar.kind, len(kinds))
            bars.append((lane_number, name, bar.start, bar.length, kind, bar.merged))

        content = {
            "unit": "≈ ns",
            "source": chart.source,
            "total": chart.length,
            "lanes": lanes,
            "names": list(names),
            "kinds": list(kinds),
            "bars": bars,
            "notes": chart.notes,
        }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        if not self._spans:
            return {"text/plain": repr(self)}
        bundle = {"text/plain": str(self), MIME: self.payload()}
        try:
            from cudasim.clock import drawing

            bundle["image/svg+xml"] = drawing.svg(self.chart())
        except ModuleNotFoundError as missing:
            bundle["text/plain"] += f"\n{missing}"
        return bundle


def format_time(seconds: float, digits: int = 2) -> str:
    """Return a time for readers, in milliseconds.

    From 1 ms on it has as many digits as the model can know.
    """
    value = seconds * 1000
    decimals = 3
    if value >= 1:
        decimals = max(digits - len(str(int(value))), 0)
    return f"≈ {value:.{decimals}f} ms"


def _count(number: int, kind: str) -> str:
    if number != 1:
        kind = PLURALS.get(kind, f"{kind}s")
    return f"{number} {kind}"


def _lane_order(lane: str) -> tuple:
    """Return the key by which lanes are sorted.

    They stand by rank; Python first, then each GPU; streams by number, then the rest.
    """
    rank, name = split_rank(lane)
    device, _, rest = name.partition(" ")
    kind, _, digits = rest.partition(" ")
    is_python = name.startswith("Python")
    is_stream = kind == "stream"
    number = 0
    if is_stream and digits.isdigit():
        number = int(digits)
    return rank, not is_python, device, not is_stream, number, rest


def _crowded_lanes(spans: list[Span]) -> set[str]:
    """Return the lanes of Python's threads after the first THREADS, which share one."""
    begins: dict[str, int] = {}
    for span in spans:  # in the order of their beginning
        if span.lane.startswith("Python, "):
            begins.setdefault(span.lane, span.start)
    in_order = sorted(begins, key=lambda lane: (begins[lane], lane))
    return set(in_order[THREADS:])


def _exchange(own: Any) -> list[Any]:
    """Return what every rank gives here, in their order.

    It goes by the group's store, which takes no modelled time.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(WORDS["times"]["no ranks"])
    from cudasim.torch_private.distributed import default_store

    store = dist.PrefixStore("cudasim/timeline", default_store())
    number = next(_gather_numbers)
    store.set(f"{number}/{dist.get_rank()}", json.dumps(own))
    ranks = range(dist.get_world_size())
    return [json.loads(store.get(f"{number}/{rank}")) for rank in ranks]
