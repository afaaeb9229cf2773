"""What a picture of a timeline shows: bars, each for a span or for neighbours merged."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from cudasim.clock.clock import Span

BARS = 400  # that a picture holds; more are merged
FINEST = 2000  # the first merging joins what is nearer than the total over this
IDLE = ("wait", "sleep")  # kinds of a span in which its lane does nothing
RANK = re.compile(
    r"rank (\d+): "
)  # what a lane of one of several processes begins with
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Bar(Span):
    """What a picture shows as one: a span since the timeline began, or neighbours of one lane."""

    merged: int = 1  # how many spans it stands for

    @property
    def device(self) -> str:
        """The GPU, or whatever else, whose lane it is: `cuda:0`, `Python`."""
        return split(self.lane)[1].partition(" ")[0]

    @property
    def label(self) -> str:
        return f"{self.name} {TIMES} {self.merged:,}" if self.merged > 1 else self.name


class Chart(NamedTuple):
    bars: list[Bar]
    lanes: list[
        tuple[str, dict[str, int], float]
    ]  # name, spans of each kind, busy share
    length: int  # nanoseconds
    source: str  # what the times are
    notes: list[str]


def merged(spans: Sequence[Span], lanes: Sequence[str]) -> list[Bar]:
    begin, order = (
        min(span.start for span in spans),
        {lane: n for n, lane in enumerate(lanes)},
    )
    ordered = sorted(spans, key=lambda span: (order[span.lane], span.start))
    bars = [
        Bar(s.lane, s.name, s.start - begin, s.end - begin, s.kind) for s in ordered
    ]
    near, fewer, length = 0, bars, max(bar.end for bar in bars)
    while len(fewer) > max(BARS, len(order)):
        fewer = _merge(bars, near)
        near = near * 2 or max(length // FINEST, 1)
    return fewer


def split(lane: str) -> tuple[int, str]:
    """The rank whose lane it is, and its name there; rank -1 where there is but one process."""
    found = RANK.match(lane)
    return (int(found[1]), lane[found.end() :]) if found else (-1, lane)


def _merge(bars: Sequence[Bar], near: int) -> list[Bar]:
    """Join neighbours less than `near` apart: those of one name, and others that are as short."""
    groups: list[list[Bar]] = []
    for last, bar in pairwise([None, *bars]):
        if last and last.lane == bar.lane and bar.start - last.end <= near:
            alike = (last.name, last.kind) == (bar.name, bar.kind)
            if alike or (near and max(last.length, bar.length) <= near):
                groups[-1].append(bar)
                continue
        groups.append([bar])
    return [_joined(group) if len(group) > 1 else group[0] for group in groups]


def _joined(group: Sequence[Bar]) -> Bar:
    """One bar for all; its name and kind are those that took the longest."""
    names, kinds = Counter(), Counter()
    for bar in group:
        names[bar.name] += bar.length
        kinds[bar.kind] += bar.length
    (name, _), others = names.most_common(1)[0], len(names) - 1
    if others:
        name += f" and {others} other{'s' if others > 1 else ''}"
    end, kind = max(bar.end for bar in group), kinds.most_common(1)[0][0]
    return Bar(group[0].lane, name, group[0].start, end, kind, merged=len(group))
