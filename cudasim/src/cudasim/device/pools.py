"""Blocks of a GPU's memory, and the pools of those that are free.

They follow c10/cuda/CUDACachingAllocator.cpp, whose functions are named in brackets. All
sizes are in bytes.
"""

from bisect import bisect_left, insort
from itertools import chain
from typing import NamedTuple

from cudasim.device.counts import Counts, Total
from cudasim.device.history import Frames
from cudasim.device.settings import Settings
from cudasim.device.sizes import BLOCK, LARGE_SEGMENT, SMALL_SEGMENT

PoolId = tuple[int, int]  # (of a graph, of a program): one of them is 0
PUBLIC: PoolId = (0, 0)  # the pools that are not private

END = ([None],)  # after a log: an entry that gives nothing back


class Range(NamedTuple):
    """Addresses that an expandable segment may fill, `grain` bytes of memory at a time."""

    address: int
    size: int
    grain: int


class Block:
    """A piece of a segment, used or free.

    It is `mapped` unless it is mere addresses of a range, without memory behind them.
    """

    __slots__ = (
        "address",
        "frames",
        "mapped",
        "next",
        "origin",
        "pool",
        "previous",
        "range",
        "requested",
        "size",
        "stream",
        "used",
    )

    def __init__(
        self,
        pool: "Pool",
        stream: int,
        address: int,
        size: int,
        range: Range | None = None,
    ) -> None:
        self.pool = pool
        self.stream = stream
        self.address = address
        self.size = size
        self.range = range
        self.requested = 0
        self.used = False
        self.mapped = True
        self.frames: Frames = ()  # of the code that took it, where a history is kept
        self.origin: Frames = ()  # of the code for which its segment was taken
        # The neighbours in its segment.
        self.previous: Block | None = None
        self.next: Block | None = None

    @property
    def end(self) -> int:
        return self.address + self.size

    @property
    def is_split(self) -> bool:
        return self.previous is not None or self.next is not None

    def cut(self, size: int) -> "Block":
        """Keep the first `size` bytes; returns the rest, as a block like this one."""
        rest = Block(
            self.pool, self.stream, self.address + size, self.size - size, self.range
        )
        rest.mapped = self.mapped
        rest.origin = self.origin
        rest.previous = self
        rest.next = self.next
        if rest.next is not None:
            rest.next.previous = rest
        self.next = rest
        self.size = size
        return rest

    def cut_before(self, size: int) -> "Block":
        """Give up the first `size` bytes; returns them, as a free block of this range."""
        before = Block(self.pool, self.stream, self.address, size, self.range)
        before.previous = self.previous
        before.next = self
        if before.previous is not None:
            before.previous.next = before
        self.previous = before
        self.address += size
        self.size -= size
        return before


class Pool:
    """The free blocks of one kind, small or large, by stream and size, then by address."""

    def __init__(
        self, small: bool, counts: Counts | None = None, id: PoolId = PUBLIC
    ) -> None:
        self.small = small
        self.id = id
        self.counts = Counts() if counts is None else counts
        self.grain = SMALL_SEGMENT if small else LARGE_SEGMENT  # if segments expand
        # Both sorted: (stream, size, address, block), and (stream, address, block).
        self.free: list[tuple[int, int, int, Block]] = []
        self.unmapped: list[tuple[int, int, Block]] = []

    def blocks(self) -> list[Block]:
        return [entry[-1] for entry in (*self.free, *self.unmapped)]

    def insert(self, block: Block) -> None:
        if block.mapped:
            insort(self.free, (block.stream, block.size, block.address, block))
        else:
            insort(self.unmapped, (block.stream, block.address, block))

    def remove(self, block: Block) -> None:
        if block.mapped:
            key = (block.stream, block.size, block.address)
            del self.free[bisect_left(self.free, key)]
        else:
            key = (block.stream, block.address)
            del self.unmapped[bisect_left(self.unmapped, key)]

    def join(self, block: Block, neighbour: Block | None) -> None:
        """Let `block` take in a neighbour, if that is free (try_merge_blocks)."""
        if neighbour is None or neighbour.used or neighbour.mapped != block.mapped:
            return
        self.remove(neighbour)
        if block.previous is neighbour:
            block.address = neighbour.address
            block.previous = neighbour.previous
            if block.previous is not None:
                block.previous.next = block
        else:
            block.next = neighbour.next
            if block.next is not None:
                block.next.previous = block
        block.size += neighbour.size

    def replay(
        self, log: list, total: Total, used: dict[int, Block], chosen: tuple = ()
    ) -> None:
        """Free and take blocks as `log` says, as far as this pool can (free_block, malloc).

        An entry of the log holds a block to free, or the bytes of a request, which are
        replaced by the block that it gets: the one `chosen`, as (block, size), or else
        the smallest free one of the default stream. Entries that are done leave the
        log. The first that stays needs another pool or a new segment.

        Nearly every allocation of a program comes through here, and most are temporary:
        a block is freed right after it was taken, and one of the same size is taken
        next. The free blocks are then those among which it was chosen before, so the
        choice would be the same. That is why a block is freed one entry late: it may
        simply stay. All is in one function, and the counts are in local variables,
        because calls and attributes would take twice the time.
        """
        free = self.free
        counts = self.counts
        blocks, held_bytes, requested, splits, pieces, segments, reserved = counts.now
        most, most_bytes, most_requested, most_splits, most_pieces, _, _ = counts.now
        taken, taken_bytes, taken_requested, taken_splits, taken_pieces, *driver = (
            counts.taken
        )
        # Requests go to this pool unless something was said about where.
        serves = self.small and self.id == PUBLIC
        done = 0  # entries
        freed = None  # the block to free with the next entry
        last = None  # the block taken last, if nothing was freed since
        rest = None  # what was cut off it
        size = left = 0  # of these two
        cut = cut_size = 0  # what the cutting added to taken_splits and taken_pieces
        try:
            for held in chain(log, END):
                what = held[0]
                if freed is not None:
                    if freed is last and freed.requested == what:  # it stays
                        held[0] = freed
                        freed = None
                        done += 2
                        taken += 1
                        taken_bytes += size
                        taken_requested += what
                        taken_splits += cut
                        taken_pieces += cut_size
                        if left:
                            rest.requested = what
                        continue

                    size = freed.size
                    before = splits
                    del used[freed.address]
                    freed.used = False
                    blocks -= 1
                    held_bytes -= size
                    requested -= freed.requested
                    for neighbour in (freed.previous, freed.next):
                        if neighbour is not None and not neighbour.used:
                            self.join(freed, neighbour)
                            splits -= 1
                    insort(free, (freed.stream, freed.size, freed.address, freed))
                    if freed.range is not None:
                        splits = before  # an expandable segment counts none
                    elif freed.previous is None and freed.next is None:
                        pieces -= freed.size - size
                    else:
                        splits += 1
                        pieces += size
                        if splits > before:
                            taken_splits += 1
                        taken_pieces += size
                        if splits > most_splits:
                            most_splits = splits
                        if pieces > most_pieces:
                            most_pieces = pieces
                    freed = last = None
                    done += 1

                if type(what) is not int:
                    if what is None or what.pool is not self:
                        break
                    freed = what
                    continue

                if chosen:
                    last, size = chosen
                else:
                    size = -(-what // BLOCK) * BLOCK
                    place = bisect_left(free, (0, size))
                    if not (what and serves) or place == len(free):
                        break
                    last = free.pop(place)[-1]
                left = last.size - size
                cut = 0
                cut_size = size
                alone = last.previous is None and last.next is None
                if left:
                    rest = last.cut(size)
                    rest.requested = last.requested
                    insort(free, (rest.stream, left, rest.address, rest))
                if last.range is not None:
                    pass  # an expandable segment counts no splits
                elif left and alone:  # a whole segment is split
                    cut = 1
                    cut_size = left
                    splits += 1
                    pieces += left
                    taken_splits += 1
                    taken_pieces += left
                    if splits > most_splits:
                        most_splits = splits
                    if pieces > most_pieces:
                        most_pieces = pieces
                elif alone:
                    cut_size = 0
                else:
                    if not left:
                        cut = 1
                        splits -= 1
                    pieces -= size
                held[0] = used[last.address] = last
                last.used = True
                last.requested = what
                last.frames = ()
                done += 1
                taken += 1
                blocks += 1
                taken_bytes += size
                held_bytes += size
                taken_requested += what
                requested += what
                if blocks > most:
                    most = blocks
                if held_bytes > most_bytes:
                    most_bytes = held_bytes
                if requested > most_requested:
                    most_requested = requested
        finally:
            del log[:done]
            if done:
                now = blocks, held_bytes, requested, splits, pieces, segments, reserved
                tops = most, most_bytes, most_requested, most_splits, most_pieces, 0, 0
                ever = taken, taken_bytes, taken_requested, taken_splits, taken_pieces
                total.change(counts, now, tops, (*ever, *driver))

    def pop(self, size: int, stream: int, settings: Settings) -> Block | None:
        """Take out the smallest free block of `stream` with `size` bytes (get_free_block)."""
        place = bisect_left(self.free, (stream, size, 0))
        if place == len(self.free) or self.free[place][0] != stream:
            return None
        if settings.plain:
            return self.free.pop(place)[-1]
        block = self._choose(place, size, stream, settings)
        if block is not None:
            self.remove(block)
        return block

    def _choose(
        self, place: int, size: int, stream: int, settings: Settings
    ) -> Block | None:
        """Choose from `place` on, where blocks can grow or are not split at any size."""
        block = self.free[place][-1]
        if block.range is not None:
            others = [entry[-1] for entry in self.free[place + 1 :]]
            others = [other for other in others if other.stream == stream]
            if settings.expandable:
                block = _least_growable(block, others)
            else:
                fixed = (other for other in others if other.range is None)
                block = next(fixed, None)
        if block is None or size < settings.max_split <= block.size:
            return None
        if size >= settings.max_split and block.size >= size + LARGE_SEGMENT:
            return None
        return block


def _least_growable(block: Block, others: list[Block]) -> Block:
    """Go on to the next block as long as it can grow less, unless it cannot grow at all."""
    for other in others:
        if block.range is None or _growable(other) >= _growable(block):
            break
        block = other
    return block


def _growable(block: Block) -> int:
    """Return the size of a block with the addresses behind it that have no memory yet."""
    behind = block.next
    if behind is None or behind.mapped:
        return block.size
    return block.size + behind.size


class PrivatePools:
    """Pools of a CUDA graph or a `torch.cuda.MemPool`.

    They keep their segments while they have users.
    """

    def __init__(self, id: PoolId, small: Counts, large: Counts) -> None:
        self.id = id
        self.users = 0
        self.small = Pool(True, small, id)
        self.large = Pool(False, large, id)
