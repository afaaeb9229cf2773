"""Blocks of a GPU's memory, and the pools of those that are free. As in
c10/cuda/CUDACachingAllocator.cpp, whose functions are named. All sizes are in bytes."""

from bisect import bisect_left, insort
from itertools import chain
from typing import NamedTuple

from cudasim.device.counts import Counts, Total
from cudasim.device.history import Frames
from cudasim.device.settings import Settings
from cudasim.device.sizes import BLOCK, LARGE_SEGMENT, SMALL_SEGMENT

PoolId = tuple[int, int]  # (of a graph, of a program): one of them is 0
PUBLIC: PoolId = (0, 0)  # the pools that are nobody's own

END = ([None],)  # of a log: nothing that is given back


class Range(NamedTuple):
    """Addresses that an expandable segment may fill, `grain` bytes of memory at a time."""

    address: int
    size: int
    grain: int


class Block:
    """A piece of a segment: `used`, or free; `mapped` unless it is mere addresses of a range."""

    __slots__ = (
        "address",
        "mapped",
        "next",
        "pool",
        "previous",
        "range",
        "requested",
        "size",
    )
    __slots__ += ("frames", "origin", "stream", "used")

    def __init__(
        self,
        pool: "Pool",
        stream: int,
        address: int,
        size: int,
        range: Range | None = None,
    ) -> None:
        self.pool, self.stream, self.address, self.size = pool, stream, address, size
        self.range, self.requested, self.used, self.mapped = range, 0, False, True
        self.frames: Frames = ()  # of the code that took it, where a history is kept
        self.origin: Frames = ()  # of the code for which its segment was taken
        self.previous: Block | None = None
        self.next: Block | None = None

    @property
    def is_split(self) -> bool:
        return self.previous is not None or self.next is not None

    def cut(self, size: int) -> "Block":
        """Keep the first `size` bytes; returns the rest, as a block like this one."""
        address, behind = self.address + size, self.next
        rest = Block(self.pool, self.stream, address, self.size - size, self.range)
        rest.mapped, rest.origin = self.mapped, self.origin
        rest.previous, rest.next = self, behind
        if behind is not None:
            behind.previous = rest
        self.next, self.size = rest, size
        return rest


class Pool:
    """The free blocks of one kind, small or large, by stream and size, then by address."""

    def __init__(
        self, small: bool, counts: Counts | None = None, id: PoolId = PUBLIC
    ) -> None:
        self.small, self.id = small, id
        self.grain = (
            SMALL_SEGMENT if small else LARGE_SEGMENT
        )  # of its expandable segments
        self.free: list[
            tuple[int, int, int, Block]
        ] = []  # (stream, size, address), sorted
        self.unmapped: list[tuple[int, int, Block]] = []  # (stream, address), sorted
        self.counts = Counts() if counts is None else counts

    def blocks(self) -> list[Block]:
        return [each[-1] for each in (*self.free, *self.unmapped)]

    def insert(self, block: Block) -> None:
        if block.mapped:
            insort(self.free, (block.stream, block.size, block.address, block))
        else:
            insort(self.unmapped, (block.stream, block.address, block))

    def remove(self, block: Block) -> None:
        if block.mapped:
            del self.free[
                bisect_left(self.free, (block.stream, block.size, block.address))
            ]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.stream, block.address))]

    def join(self, block: Block, neighbour: Block | None) -> int:
        """Let `block` take in a free neighbour; returns how many bytes (try_merge_blocks)."""
        if neighbour is None or neighbour.used or neighbour.mapped != block.mapped:
            return 0
        self.remove(neighbour)
        if block.previous is neighbour:
            block.address, block.previous = neighbour.address, neighbour.previous
            if block.previous is not None:
                block.previous.next = block
        else:
            block.next = neighbour.next
            if block.next is not None:
                block.next.previous = block
        block.size += neighbour.size
        return neighbour.size

    def replay(
        self, log: list, total: Total, used: dict[int, Block], chosen: tuple = ()
    ) -> None:
        """Free, and join with free neighbours (free_block), and take, as `log` says: from the block
        that is `chosen`, so many bytes; else from that which is chosen by size alone on the default
        stream. It ends where another pool or a new segment is needed, which is then first in `log`.

        Nearly all comes by here. If a block is freed right after it was taken, and its like is
        taken next, it stays: the free blocks are those among which it was chosen."""
        free, counts, done, last, freed, rest = (
            self.free,
            self.counts,
            0,
            None,
            None,
            None,
        )
        blocks, held_bytes, requested, splits, pieces, segments, reserved = counts.now
        most, most_bytes, most_requested, most_splits, most_pieces, _, _ = counts.now
        taken, taken_bytes, taken_requested, taken_splits, taken_pieces, *driver = (
            counts.taken
        )
        serves = (
            self.small and self.id == PUBLIC
        )  # what is taken without a word of where
        size = left = cut = cut_size = (
            0  # of the block taken last, and what its cutting counts
        )
        try:
            for held in chain(log, END):
                what = held[0]
                if freed is not None:
                    if freed is last and freed.requested == what:
                        held[0], freed = freed, None
                        done, taken = done + 2, taken + 1
                        taken_bytes, taken_requested = (
                            taken_bytes + size,
                            taken_requested + what,
                        )
                        taken_splits, taken_pieces = (
                            taken_splits + cut,
                            taken_pieces + cut_size,
                        )
                        if left:
                            rest.requested = what
                        continue
                    size, before = freed.size, splits
                    del used[freed.address]
                    freed.used = False
                    blocks, held_bytes = blocks - 1, held_bytes - size
                    requested -= freed.requested
                    for neighbour in (freed.previous, freed.next):
                        if neighbour is not None and not neighbour.used:
                            self.join(freed, neighbour)
                            splits -= 1
                    insort(free, (freed.stream, freed.size, freed.address, freed))
                    if freed.range is not None:
                        splits = (
                            before  # there are no free pieces in an expandable segment
                        )
                    elif freed.previous is None and freed.next is None:
                        pieces -= freed.size - size
                    else:
                        splits, pieces = splits + 1, pieces + size
                        taken_splits += splits > before
                        taken_pieces += size
                        most_splits = splits if splits > most_splits else most_splits
                        most_pieces = pieces if pieces > most_pieces else most_pieces
                    freed, last, done = None, None, done + 1
                if type(what) is not int:
                    if what is None or what.pool is not self:
                        break
                    freed = what
                    continue
                if not chosen:
                    size = -(-what // BLOCK) * BLOCK
                    place = bisect_left(free, (0, size))
                    if not (what and serves) or place == len(free):
                        break
                    last = free.pop(place)[-1]
                else:
                    last, size = chosen
                left, cut, cut_size = last.size - size, 0, size
                alone = last.previous is None and last.next is None
                if left:
                    rest = last.cut(size)
                    rest.requested = last.requested
                    insort(free, (rest.stream, left, rest.address, rest))
                if last.range is not None:
                    pass
                elif left and alone:
                    cut, cut_size = 1, left
                    splits, pieces = splits + 1, pieces + left
                    taken_splits, taken_pieces = taken_splits + 1, taken_pieces + left
                    most_splits = splits if splits > most_splits else most_splits
                    most_pieces = pieces if pieces > most_pieces else most_pieces
                elif alone:
                    cut_size = 0
                else:
                    cut = int(not left)
                    splits, pieces = splits - cut, pieces - size
                held[0] = used[last.address] = last
                last.used, last.requested, last.frames = True, what, ()
                done, taken, blocks = done + 1, taken + 1, blocks + 1
                taken_bytes, held_bytes = taken_bytes + size, held_bytes + size
                taken_requested, requested = taken_requested + what, requested + what
                most = blocks if blocks > most else most
                most_bytes = held_bytes if held_bytes > most_bytes else most_bytes
                most_requested = (
                    requested if requested > most_requested else most_requested
                )
        finally:
            del log[:done]
            if done:
                now = blocks, held_bytes, requested, splits, pieces, segments, reserved
                tops = most, most_bytes, most_requested, most_splits, most_pieces, 0, 0
                ever = (
                    taken,
                    taken_bytes,
                    taken_requested,
                    taken_splits,
                    taken_pieces,
                    *driver,
                )
                total.change(counts, now, tops, ever)

    def pop(self, size: int, stream: int, settings: Settings) -> Block | None:
        """Take out the smallest free block of `stream` with `size` bytes (get_free_block)."""
        free = self.free
        place = bisect_left(free, (stream, size, 0))
        if place == len(free) or free[place][0] != stream:
            return None
        if settings.plain:
            return free.pop(place)[-1]
        block = self._choose(place, size, stream, settings)
        if block is not None:
            self.remove(block)
        return block

    def _choose(
        self, place: int, size: int, stream: int, settings: Settings
    ) -> Block | None:
        """The same from that `place` on, where blocks can grow or are not split at any size."""
        block = self.free[place][-1]
        if block.range is not None:
            fitting = (each[-1] for each in self.free[place + 1 :] if each[0] == stream)
            if settings.expandable:  # best is what can grow least
                for other in fitting:
                    if block.range is None or _growable(other) >= _growable(block):
                        break
                    block = other
            else:
                block = next((each for each in fitting if each.range is None), None)
        if block is None or size < settings.max_split <= block.size:
            return None
        too_large = size >= settings.max_split and block.size >= size + LARGE_SEGMENT
        return None if too_large else block


def _growable(block: Block) -> int:
    behind = block.next
    return block.size + (behind.size if behind is not None and not behind.mapped else 0)


class Private:
    """Pools of a CUDA graph or a `torch.cuda.MemPool`; they keep segments while they have users."""

    def __init__(self, id: PoolId, small: Counts, large: Counts) -> None:
        self.id, self.users = id, 0
        self.small, self.large = Pool(True, small, id), Pool(False, large, id)
        self.pools = self.large, self.small
