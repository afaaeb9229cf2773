"""A timeline: what Python, the streams and the copy engines did, lane by lane, modelled or
measured. Times are whole nanoseconds; those that a reader sees follow the sign `≈`."""

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
from cudasim.clock.bars import IDLE, Bar, Chart, merged, split
from cudasim.clock.clock import SECOND, Span
from cudasim.words import WORDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THREADS = 16  # of Python that have a lane each: a program may start thousands
OTHERS = "Python, other threads"
MIME = "application/vnd.cudasim.timeline+json"
PLURALS = {"copy": "copies"}
NOTHING = "nothing was recorded: no operation of PyTorch ran"
_gathered = itertools.count()  # by this process


class Table(list):
    """Rows of (lane, name, start in seconds, duration in seconds); it prints as a table."""

    def __repr__(self) -> str:
        rows = [("lane", "name", "start", "duration")]
        rows += [
            (lane, name, reading(at, 3), reading(taken))
            for lane, name, at, taken in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = (map(str.ljust, row, widths) for row in rows)
        return "\n".join("  ".join(cells).rstrip() for cells in padded)


class Timeline:
    """The spans of some lines of a program, by lane. In a notebook it displays itself. Whatever is
    asked of one that holds nothing raises RuntimeError, which says why it does."""

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
        """Hold `spans`. `source` says what the times are: modelled for, or measured on, what."""
        self._spans, folded = _folded(sorted(spans, key=attrgetter("start", "lane")))
        self._bars: list[Bar] | None = None
        self._reason, self.source, self.notes = reason, source, [*notes, *folded]

    @property
    def spans(self) -> list[Span]:
        """What was recorded, in the order of its beginning; times are in nanoseconds."""
        if not self._spans:
            raise RuntimeError(f"cudasim.timeline(): {self._reason}")
        return self._spans

    def gather(self) -> "Timeline":
        """The timelines of all ranks of a run, side by side, each rank with lanes of its own. Every
        rank has to call it; each gets the whole. A lane is called `rank 0: Python`. Raises
        RuntimeError outside of a process group, and for measured times."""
        if self._spans and not self.modelled:
            raise RuntimeError(WORDS["times"]["measured"])
        told = _from_all_ranks([[*map(astuple, self._spans)], self.source, self.notes])
        found, joined, noted = Timeline(), [], []
        for rank, (spans, _, notes) in enumerate(told):
            joined += [Span(f"rank {rank}: {lane}", *rest) for lane, *rest in spans]
            noted += [f"rank {rank}: {note}" for note in notes]
        if joined:
            sources = dict.fromkeys(source for _, source, _ in told if source)
            found.fill(joined, f"{' and '.join(sources)}, {len(told)} ranks", noted)
        return found

    @classmethod
    def load(cls, path: str | Path) -> "Timeline":
        """The timeline that `save` has written to a file. Raises ValueError for another file."""
        read, found = json.loads(Path(path).read_text(encoding="utf-8")), cls()
        try:
            found.fill(trace.reread(read), **read["otherData"])
        except (KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{path}: not a timeline that save() has written"
            ) from None
        return found

    @property
    def modelled(self) -> bool:
        return self.source.startswith("modelled")

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes: Python's first, then each GPU's streams and copies."""
        return sorted({span.lane for span in self.spans}, key=_rank)

    @property
    def start(self) -> int:
        return self.spans[0].start

    @property
    def length(self) -> int:
        """From the first beginning to the last end, in nanoseconds."""
        return max(span.end for span in self.spans) - self.start

    @property
    def total(self) -> float:
        return self.length / SECOND

    def busy(self, name: str) -> float:
        """The share of the total, 0 to 1, in which a lane or a GPU (`cuda:0`) does something. A GPU
        is busy while one of its lanes is; waiting and sleeping are not work. Raises ValueError for
        an unknown name."""
        mine = [span for span in self.spans if f"{span.lane} ".startswith(f"{name} ")]
        if not mine:
            raise ValueError(
                f"{name!r}: no such lane; there are {', '.join(self.lanes)}"
            )
        busy, reached = 0, 0
        for span in mine:
            if span.kind not in IDLE:
                busy += max(0, span.end - max(span.start, reached))
                reached = max(reached, span.end)
        return busy / (self.length or 1)

    def table(self) -> Table:
        """Every span as a row: lane, name, start and duration in seconds."""
        begin, order = (
            self.start,
            {lane: number for number, lane in enumerate(self.lanes)},
        )
        return Table(
            (each.lane, each.name, (each.start - begin) / SECOND, each.length / SECOND)
            for each in sorted(
                self.spans, key=lambda span: (order[span.lane], span.start)
            )
        )

    def bars(self) -> list[Bar]:
        """The spans as a picture shows them: at most BARS, neighbours merged if need be."""
        if self._bars is None:
            self._bars = merged(self.spans, self.lanes)
        return self._bars

    def figure(self) -> "Figure":
        """A Gantt chart, drawn with matplotlib. Raises ModuleNotFoundError without it."""
        from cudasim.clock import drawing

        return drawing.figure(self.chart())

    def chart(self) -> Chart:
        bars, notes = self.bars(), self.notes
        if len(bars) != len(self.spans):
            drawn = "1 bar" if len(bars) == 1 else f"{len(bars):,} bars"
            notes = [
                *notes,
                f"{drawn} for {len(self.spans):,} spans: neighbours are merged",
            ]
        return Chart(bars, self.summary(), self.length, self.source, notes)

    def save(self, path: str | Path) -> None:
        """Write Chrome's trace format, which chrome://tracing and ui.perfetto.dev open."""
        written = trace.write(self.spans, self.lanes, self.source, self.notes)
        Path(path).write_text(json.dumps(written), encoding="utf-8")

    def __str__(self) -> str:
        word = self.source if self.modelled else "measured"
        lines = [f"timeline, {word}: {reading(self.total)}"]
        for lane, kinds, share in self.summary():
            did = ", ".join(_counted(n, kind) for kind, n in kinds.items())
            taken = reading(self.total * share)
            lines.append(f"{lane}: {did}; busy {taken}, ≈ {100 * share:.0f} %")
        return "\n".join(lines + self.notes)

    def __repr__(self) -> str:
        return str(self) if self._spans else f"cudasim.timeline(): {self._reason}"

    def summary(self) -> list[tuple[str, dict[str, int], float]]:
        """For each lane its name, how many spans it has of each kind, and its busy share."""
        counts = {lane: Counter() for lane in self.lanes}
        for span in self.spans:
            counts[span.lane][span.kind] += 1
        return [(lane, dict(kinds), self.busy(lane)) for lane, kinds in counts.items()]

    def payload(self) -> str:
        """The bars and the summary as JSON text, for a page that draws them itself."""
        chart, lanes = self.chart(), self.lanes
        names, kinds, bars = {}, {}, []  # numbers of names and of kinds
        for bar in chart.bars:
            name = names.setdefault(bar.name, len(names))
            kind = kinds.setdefault(bar.kind, len(kinds))
            bars.append(
                (lanes.index(bar.lane), name, bar.start, bar.length, kind, bar.merged)
            )
        content = {"unit": "≈ ns", "source": chart.source, "total": chart.length}
        content["lanes"] = [
            (lane, spans, round(share, 4)) for lane, spans, share in chart.lanes
        ]
        content |= {
            "names": [*names],
            "kinds": [*kinds],
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


def reading(seconds: float, digits: int = 2) -> str:
    """A time for readers: milliseconds, to as many digits as the model knows; or microseconds."""
    value = seconds * 1000
    digits = digits - len(str(int(value))) if value >= 1 else 3
    return f"≈ {value:.{max(digits, 0)}f} ms"


def _counted(number: int, kind: str) -> str:
    return f"{number} {kind if number == 1 else PLURALS.get(kind, f'{kind}s')}"


def _rank(lane: str) -> tuple:
    process, lane = split(lane)
    device, _, rest = lane.partition(" ")
    kind, _, number = rest.partition(" ")
    stream = int(number) if kind == "stream" and number.isdigit() else 0
    return (
        process,
        not lane.startswith("Python"),
        device,
        kind != "stream",
        stream,
        rest,
    )


def _folded(spans: list[Span]) -> tuple[list[Span], list[str]]:
    """The spans with all but the first THREADS threads of Python in one lane, and a note of it."""
    began = {
        span.lane: span.start
        for span in reversed(spans)
        if span.lane.startswith("Python, ")
    }
    rest = set(sorted(began, key=lambda lane: (began[lane], lane))[THREADS:])
    if not rest:
        return spans, []
    note = f"{len(rest):,} more threads of Python share a lane"
    return [replace(s, lane=OTHERS) if s.lane in rest else s for s in spans], [note]


def _from_all_ranks(mine: Any) -> list[Any]:
    """What every rank gives here, in their order, by the store: that takes no modelled time."""
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(WORDS["times"]["no ranks"])
    store = dist.PrefixStore(
        "cudasim/timeline", dist.distributed_c10d._get_default_store()
    )
    number = next(_gathered)
    store.set(f"{number}/{dist.get_rank()}", json.dumps(mine))
    return [
        json.loads(store.get(f"{number}/{rank}"))
        for rank in range(dist.get_world_size())
    ]
