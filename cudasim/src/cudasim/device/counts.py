"""The figures of an allocator that `torch.cuda.memory_stats` reports.

They are tuples, one number for each of NAMES: an allocation changes them all at once,
and does so in local variables (see `Pool.replay`).
"""

from operator import add, gt

NAMES = ("blocks", "used", "requested", "splits", "split_bytes", "segments", "reserved")
Figures = tuple[int, ...]
NONE: Figures = (0,) * len(NAMES)


class Counts:
    """How many blocks and bytes of one kind there are, were at most, and have ever been.

    `splits` are free blocks beside used ones, which only a request that fits can use.
    """

    def __init__(self) -> None:
        self.now = NONE
        self.most = NONE
        self.taken = NONE
        self.before = NONE, NONE  # `taken` and `now` when the totals were reset

    def stat(self, name: str) -> dict[str, int]:
        """Return one figure as PyTorch reports it."""
        place = NAMES.index(name)
        taken_before, now_before = self.before
        allocated = self.taken[place] - taken_before[place]
        growth = self.now[place] - now_before[place]
        return {
            "current": self.now[place],
            "peak": self.most[place],
            "allocated": allocated,
            "freed": allocated - growth,
        }


class Total:
    """The same for both kinds together. Only the peaks do not follow from theirs."""

    def __init__(self, *kinds: Counts) -> None:
        self.kinds = kinds
        self.most = NONE

    @property
    def now(self) -> Figures:
        return tuple(map(add, *[kind.now for kind in self.kinds]))

    def change(self, kind: Counts, now: Figures, most: Figures, taken: Figures) -> None:
        """Set the figures of a `kind`; `most` is the most that there was meanwhile."""
        small, large = self.kinds
        kind.now = now
        kind.taken = taken
        other = large if kind is small else small
        most_together = tuple(map(add, most, other.now))
        _raise_peak(kind, most)
        _raise_peak(self, most_together)

    def reserve(self, kind: Counts, size: int, segments: int) -> None:
        """Count `size` bytes in `segments` from the driver; below 0 they were given back."""
        *others, before, reserved = kind.now
        now = (*others, before + segments, reserved + size)
        *others, before, reserved = kind.taken
        taken = (*others, before + max(segments, 0), reserved + max(size, 0))
        self.change(kind, now, now, taken)

    def stat(self, name: str) -> dict[str, int]:
        """Return one figure as PyTorch reports it."""
        small, large = [kind.stat(name) for kind in self.kinds]
        total = {key: small[key] + large[key] for key in small}
        total["peak"] = self.most[NAMES.index(name)]
        return total


def _raise_peak(counts: Counts | Total, most: Figures) -> None:
    if any(map(gt, most, counts.most)):  # seldom, and faster to ask than to do
        counts.most = tuple(map(max, most, counts.most))
