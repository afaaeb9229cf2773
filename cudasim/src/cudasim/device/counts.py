"""The figures of an allocator, as `torch.cuda.memory_stats` tells them."""

from operator import add, gt

NAMES = ("blocks", "used", "requested", "splits", "split_bytes", "segments", "reserved")
Figures = tuple[int, ...]  # one of each of these


class Counts:
    """How many blocks and bytes of one kind there are, were at most, and have ever been. `splits`
    are free blocks beside used ones, which only a fitting request can use."""

    def __init__(self) -> None:
        self.now: Figures = (0,) * len(NAMES)
        self.most = self.taken = self.now
        self.before = self.taken, self.now  # when totals were reset

    def stat(self, name: str) -> dict[str, int]:
        place = NAMES.index(name)
        now, taken, (taken_before, now_before) = self.now, self.taken, self.before
        allocated = taken[place] - taken_before[place]
        freed = allocated - (now[place] - now_before[place])
        peak = self.most[place]
        return {
            "current": now[place],
            "peak": peak,
            "allocated": allocated,
            "freed": freed,
        }


class Total:
    """The same of both kinds together, of which only the peaks are not known from theirs."""

    def __init__(self, *kinds: Counts) -> None:
        self.kinds, self.most = kinds, (0,) * len(NAMES)

    @property
    def now(self) -> Figures:
        return tuple(map(add, *[kind.now for kind in self.kinds]))

    def change(self, kind: Counts, now: Figures, most: Figures, taken: Figures) -> None:
        """Of a `kind` there are so many `now`, were so many at most meanwhile, were taken ever."""
        small, large = self.kinds
        kind.now, kind.taken = now, taken
        both = tuple(map(add, most, (large if kind is small else small).now))
        for each, there in ((kind, most), (self, both)):
            if any(map(gt, there, each.most)):  # seldom, and asked faster than raised
                each.most = tuple(map(max, there, each.most))

    def reserve(self, kind: Counts, size: int, segments: int) -> None:
        """So many bytes and `segments` were taken from the driver; given back, if below 0."""
        *others, before, reserved = kind.now
        now = (*others, before + segments, reserved + size)
        *others, before, reserved = kind.taken
        taken = (*others, before + max(segments, 0), reserved + max(size, 0))
        self.change(kind, now, now, taken)

    def stat(self, name: str) -> dict[str, int]:
        figures = [kind.stat(name) for kind in self.kinds]
        total = {key: sum(each[key] for each in figures) for key in figures[0]}
        return total | {"peak": self.most[NAMES.index(name)]}
