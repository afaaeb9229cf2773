"""The figures of an allocator that `torch.cuda.memory_stats` reports.

Where they are kept they are tuples, one number for each of NAMES. While blocks are taken
and freed, they are the attributes of a `Ledger`, which are quicker to change.
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
        self.allocated = NONE  # all that was ever added
        self.at_reset = NONE, NONE  # `allocated` and `now` when the totals were reset

    def stat(self, name: str) -> dict[str, int]:
        """Return one figure as PyTorch reports it."""
        position = NAMES.index(name)
        allocated_before, now_before = self.at_reset
        allocated = self.allocated[position] - allocated_before[position]
        growth = self.now[position] - now_before[position]
        return {
            "current": self.now[position],
            "peak": self.most[position],
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

    def change(
        self, kind: Counts, now: Figures, most: Figures, allocated: Figures
    ) -> None:
        """Set the figures of a `kind`; `most` is the most that there was meanwhile."""
        small, large = self.kinds
        kind.now = now
        kind.allocated = allocated
        other = large if kind is small else small
        most_together = tuple(map(add, most, other.now))
        _raise_peak(kind, most)
        _raise_peak(self, most_together)

    def reserve(self, kind: Counts, size: int, segments: int) -> None:
        """Count `size` bytes in `segments` from the driver; below 0 they were given back."""
        *others, segments_so_far, reserved = kind.now
        now = (*others, segments_so_far + segments, reserved + size)
        *others, segments_so_far, reserved = kind.allocated
        segments_so_far += max(segments, 0)
        allocated = (*others, segments_so_far, reserved + max(size, 0))
        self.change(kind, now, now, allocated)

    def stat(self, name: str) -> dict[str, int]:
        """Return one figure as PyTorch reports it."""
        small, large = [kind.stat(name) for kind in self.kinds]
        total = {key: small[key] + large[key] for key in small}
        total["peak"] = self.most[NAMES.index(name)]
        return total


def _raise_peak(counts: Counts | Total, most: Figures) -> None:
    if any(map(gt, most, counts.most)):  # seldom, and faster to ask than to do
        counts.most = tuple(map(max, most, counts.most))


class Ledger:
    """The figures of one kind while its blocks are taken and freed, within a `with` block.

    At the end of the block they are written to `counts`, and to the `total`.
    """

    __slots__ = (
        "allocated_blocks",
        "allocated_requested",
        "allocated_split_bytes",
        "allocated_splits",
        "allocated_used",
        "blocks",
        "counts",
        "most_blocks",
        "most_requested",
        "most_split_bytes",
        "most_splits",
        "most_used",
        "requested",
        "split_bytes",
        "splits",
        "total",
        "used",
    )

    def __init__(self, total: Total, counts: Counts) -> None:
        self.total = total
        self.counts = counts
        blocks, used, requested, splits, split_bytes, _, _ = counts.now
        self.blocks = self.most_blocks = blocks
        self.used = self.most_used = used
        self.requested = self.most_requested = requested
        self.splits = self.most_splits = splits
        self.split_bytes = self.most_split_bytes = split_bytes

        blocks, used, requested, splits, split_bytes, _, _ = counts.allocated
        self.allocated_blocks = blocks
        self.allocated_used = used
        self.allocated_requested = requested
        self.allocated_splits = splits
        self.allocated_split_bytes = split_bytes

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        now = (
            self.blocks,
            self.used,
            self.requested,
            self.splits,
            self.split_bytes,
            *self.counts.now[5:],
        )
        most = (
            self.most_blocks,
            self.most_used,
            self.most_requested,
            self.most_splits,
            self.most_split_bytes,
            0,
            0,
        )
        allocated = (
            self.allocated_blocks,
            self.allocated_used,
            self.allocated_requested,
            self.allocated_splits,
            self.allocated_split_bytes,
            *self.counts.allocated[5:],
        )
        self.total.change(self.counts, now, most, allocated)

    def take(self, size: int, requested: int) -> None:
        """Count a block of `size` bytes that was taken."""
        self.allocated_blocks += 1
        self.allocated_used += size
        self.allocated_requested += requested
        self.blocks = blocks = self.blocks + 1
        self.used = used = self.used + size
        self.requested = total_requested = self.requested + requested
        if blocks > self.most_blocks:
            self.most_blocks = blocks
        if used > self.most_used:
            self.most_used = used
        if total_requested > self.most_requested:
            self.most_requested = total_requested

    def free(self, size: int, requested: int) -> None:
        """Count a block of `size` bytes that was freed."""
        self.blocks -= 1
        self.used -= size
        self.requested -= requested

    def split(self, number: int, size: int) -> None:
        """Count so many more splits, with `size` bytes; below 0 there are fewer."""
        self.splits = splits = self.splits + number
        self.split_bytes = split_bytes = self.split_bytes + size
        if number > 0:
            self.allocated_splits += number
            if splits > self.most_splits:
                self.most_splits = splits
        if size > 0:
            self.allocated_split_bytes += size
            if split_bytes > self.most_split_bytes:
                self.most_split_bytes = split_bytes

    def repeat(
        self, times: int, size: int, requested: int, splits: int, split_bytes: int
    ) -> None:
        """Count that a block was freed, and taken again at once, so many times.

        The first time, taking it changed the splits by `splits` and `split_bytes`.
        Freeing it takes that back; either way, something was added.
        """
        self.allocated_blocks += times
        self.allocated_used += times * size
        self.allocated_requested += times * requested
        self.allocated_splits += times * abs(splits)
        self.allocated_split_bytes += times * abs(split_bytes)
