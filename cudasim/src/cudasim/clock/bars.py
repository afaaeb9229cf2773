"""The bars in a picture of a timeline: one for a span, or one for several neighbours."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cudasim.clock.clock import Span

BARS = 400  # the most that a picture holds; where there are more, neighbours are merged
# The first round of merging joins neighbours that are nearer than the total over this.
FINEST = 2000
IDLE = ("wait", "sleep")  # the kinds of a span in which its lane does nothing
RANK = re.compile(r"rank (\d+): ")  # begins the name of a lane of one of several ranks
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Bar(Span):
    """One bar: a span, timed from the start of the timeline, or neighbours of one lane."""

    merged: int = 1  # how many spans it stands for

    @property
    def device(self) -> str:
        """What the lane belongs to: `cuda:0`, `Python`."""
        _, name = split_rank(self.lane)
        return name.partition(" ")[0]

    @property
    def label(self) -> str:
        if self.merged == 1:
            return self.name
        return f"{self.name} {TIMES} {self.merged:,}"


@dataclass(frozen=True)
class Lane:
    """What a timeline says of one of its lanes."""

    name: str
    counts: dict[str, int]  # spans of each kind
    busy: float  # the share of the timeline in which it works, 0 to 1


@dataclass(frozen=True)
class Chart:
    """All that a picture of a timeline shows."""

    bars: list[Bar]
    lanes: list[Lane]
    length: int  # nanoseconds
    source: str  # what the times are: modelled for, or measured on, what
    notes: list[str]


def bars_of(spans: Sequence[Span], lanes: Sequence[str]) -> list[Bar]:
    """Return the bars for `spans`, lane by lane: at most BARS, or one for each lane."""
    begin = min(span.start for span in spans)
    bars = []
    for span in by_lane(spans, lanes):
        start = span.start - begin
        end = span.end - begin
        bars.append(Bar(span.lane, span.name, start, end, span.kind))

    length = max(bar.end for bar in bars)
    distance = 0
    merged = bars
    while len(merged) > max(BARS, len(lanes)):
        merged = _merge(bars, distance)
        distance = distance * 2 or max(length // FINEST, 1)
    return merged


def by_lane(spans: Sequence[Span], lanes: Sequence[str]) -> list[Span]:
    """Return spans lane by lane, in the order of `lanes` and of their beginning."""
    order = {lane: number for number, lane in enumerate(lanes)}
    return sorted(spans, key=lambda span: (order[span.lane], span.start))


def split_rank(lane: str) -> tuple[int, str]:
    """Split the name of a lane into its rank and the rest; with one process, rank -1."""
    match = RANK.match(lane)
    if match is None:
        return -1, lane
    return int(match[1]), lane[match.end() :]


def _merge(bars: Sequence[Bar], distance: int) -> list[Bar]:
    """Join neighbours at most `distance` apart that have one name, or are as short."""
    groups: list[list[Bar]] = []
    for bar in bars:
        if groups and _belong_together(groups[-1][-1], bar, distance):
            groups[-1].append(bar)
        else:
            groups.append([bar])
    return [_join(group) for group in groups]


def _belong_together(last: Bar, bar: Bar, distance: int) -> bool:
    if last.lane != bar.lane or bar.start - last.end > distance:
        return False
    if last.name == bar.name and last.kind == bar.kind:
        return True
    return distance > 0 and max(last.length, bar.length) <= distance


def _join(group: Sequence[Bar]) -> Bar:
    """Return one bar for all; its name and kind are those that took the longest."""
    if len(group) == 1:
        return group[0]
    time_of_name: Counter[str] = Counter()
    time_of_kind: Counter[str] = Counter()
    for bar in group:
        time_of_name[bar.name] += bar.length
        time_of_kind[bar.kind] += bar.length

    [(name, _)] = time_of_name.most_common(1)
    [(kind, _)] = time_of_kind.most_common(1)
    others = len(time_of_name) - 1
    if others == 1:
        name += " and 1 other"
    elif others:
        name += f" and {others} others"
    end = max(bar.end for bar in group)
    return Bar(group[0].lane, name, group[0].start, end, kind, merged=len(group))
