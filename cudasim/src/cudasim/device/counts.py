"""The figures of an allocator, as `torch.cuda.memory_stats` tells them."""

NAMES = ("blocks", "used", "requested", "segments", "reserved", "splits", "split_bytes")


class Peaks:
    __slots__ = ()

    def reset_peaks(self) -> None:
        for name in NAMES:
            setattr(self, f"{name}_peak", getattr(self, name))


class Counts(Peaks):
    """How many blocks and bytes of one kind there are, were at most, and have ever been. `splits`
    are free blocks beside used ones, which only a fitting request can use."""

    __slots__ = ("before", *(name + end for name in NAMES for end in ("", "_peak", "_taken")))

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)
        self.before: dict[str, tuple[int, int]] = {}  # (taken, current) when totals were reset

    def add(self, used: int, requested: int) -> None:
        self.blocks_taken += 1
        self.used_taken += used
        self.requested_taken += requested
        self.blocks = blocks = self.blocks + 1
        if blocks > self.blocks_peak:
            self.blocks_peak = blocks
        self.used = used = self.used + used
        if used > self.used_peak:
            self.used_peak = used
        self.requested = requested = self.requested + requested
        if requested > self.requested_peak:
            self.requested_peak = requested

    def remove(self, used: int, requested: int) -> None:
        self.blocks -= 1
        self.used -= used
        self.requested -= requested

    def repeat(self, times: int, used: int, requested: int, splits: int, split_bytes: int) -> None:
        """A block was removed and added again so many `times`, and `split` in and out."""
        self.blocks_taken += times
        self.used_taken += times * used
        self.requested_taken += times * requested
        self.splits_taken += times * abs(splits)
        self.split_bytes_taken += times * abs(split_bytes)

    def split(self, blocks: int, size: int) -> None:
        """There are so many more `blocks` and bytes in free pieces; fewer, if below 0."""
        self.splits += blocks
        if blocks > 0:
            self.splits_taken += blocks
            if self.splits > self.splits_peak:
                self.splits_peak = self.splits
        self.split_bytes += size
        if size > 0:
            self.split_bytes_taken += size
            if self.split_bytes > self.split_bytes_peak:
                self.split_bytes_peak = self.split_bytes

    def reserve(self, size: int, segments: int) -> None:
        """So many bytes and `segments` were taken from the driver; given back, if below 0."""
        self.reserved += size
        self.segments += segments
        if size > 0:
            self.reserved_taken += size
            self.segments_taken += segments
            self.reserved_peak = max(self.reserved_peak, self.reserved)
            self.segments_peak = max(self.segments_peak, self.segments)

    def reset_totals(self) -> None:
        for name in NAMES:
            self.before[name] = (getattr(self, f"{name}_taken"), getattr(self, name))

    def stat(self, name: str) -> dict[str, int]:
        now, taken = getattr(self, name), getattr(self, f"{name}_taken")
        taken_before, now_before = self.before.get(name, (0, 0))
        allocated, more = taken - taken_before, now - now_before
        peak = getattr(self, f"{name}_peak")
        return {"current": now, "peak": peak, "allocated": allocated, "freed": allocated - more}


class Total(Peaks):
    """The same of both kinds together, of which only the peaks are not known from theirs."""

    def __init__(self, *kinds: Counts) -> None:
        self._kinds = kinds
        self.reset_peaks()

    def __getattr__(self, name: str) -> int:
        return sum([getattr(kind, name) for kind in self._kinds])

    def rise(self) -> None:
        small, large = self._kinds
        if small.blocks + large.blocks > self.blocks_peak:
            self.blocks_peak = small.blocks + large.blocks
        if small.used + large.used > self.used_peak:
            self.used_peak = small.used + large.used
        if small.requested + large.requested > self.requested_peak:
            self.requested_peak = small.requested + large.requested

    def split(self) -> None:
        small, large = self._kinds
        if small.splits + large.splits > self.splits_peak:
            self.splits_peak = small.splits + large.splits
        if small.split_bytes + large.split_bytes > self.split_bytes_peak:
            self.split_bytes_peak = small.split_bytes + large.split_bytes

    def reserve(self) -> None:
        self.segments_peak = max(self.segments_peak, self.segments)
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def stat(self, name: str) -> dict[str, int]:
        figures = [kind.stat(name) for kind in self._kinds]
        total = {key: sum(each[key] for each in figures) for key in figures[0]}
        return total | {"peak": getattr(self, f"{name}_peak")}
