"""Blocks of a GPU's memory, and the pools of those that are free.

They follow c10/cuda/CUDACachingAllocator.cpp, whose functions are named in brackets. All
sizes are in bytes.
"""

from bisect import bisect_left, insort
from itertools import chain
from typing import NamedTuple

from cudasim.device.counts import Counts, Ledger
from cudasim.device.history import Frames
from cudasim.device.settings import Settings
from cudasim.device.sizes import BLOCK, LARGE_SEGMENT, SMALL_SEGMENT

PoolId = tuple[int, int]  # (of a graph, of a program): one of them is 0
PUBLIC: PoolId = (0, 0)  # the pools that are not private

END = ([None],)  # after a log: an entry that gives nothing back


class Range(NamedTuple):
    """Addresses that an expandable segment may fill with memory."""

    address: int
    size: int


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
        """Keep the first `size` bytes; return the rest, as a block like this one."""
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
        """Give up the first `size` bytes; return them, as a free block of this range."""
        before = Block(self.pool, self.stream, self.address, size, self.range)
        before.previous = self.previous
        before.next = self
        if before.previous is not None:
            before.previous.next = before
        self.previous = before
        self.address += size
        self.size -= size
        return before


class Taking(NamedTuple):
    """How a block was taken: what to count if it is freed and taken again."""

    size: int
    requested: int
    rest: Block | None  # what was cut off the block
    splits: int  # how many more there were than before
    split_bytes: int


class Pool:
    """The free blocks of one kind, small or large, by stream and size, then by address."""

    def __init__(
        self, small: bool, counts: Counts | None = None, id: PoolId = PUBLIC
    ) -> None:
        self.small = small
        self.id = id
        self.serves_log = small and id == PUBLIC
        self.counts = Counts() if counts is None else counts
        # Of an ordinary segment, and of each piece of memory in one that expands.
        self.segment_size = SMALL_SEGMENT if small else LARGE_SEGMENT
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

    def replay(self, log: list, used: dict[int, Block], ledger: Ledger) -> None:
        """Free and take blocks as `log` says, as far as this pool can.

        An entry of the log holds a block to free, or the bytes of a request, which are
        replaced by the block that it gets. Entries that are done leave the log. The first
        that stays needs another pool or a new segment.

        Nearly every allocation of a program comes through here, and most are temporary:
        a block is freed right after it was taken, and one of the same size is taken
        next. The free blocks are then those among which it was chosen before, so the
        choice would be the same. That is why a block is freed one entry late: it may
        simply stay.
        """
        done = 0  # entries
        freed: Block | None = None  # to be freed with the next entry
        last: Block | None = None  # taken last, if nothing was freed since
        requested = 0  # bytes of the last request
        taking: Taking | None = None  # of the last block
        repeats = 0  # how often it was freed and taken again
        try:
            for entry in chain(log, END):
                what = entry[0]
                if freed is not None:
                    if freed is last and what == requested:  # it stays
                        entry[0] = freed
                        freed = None
                        done += 2
                        repeats += 1
                        continue
                    self.free_block(freed, used, ledger)
                    freed = last = None
                    done += 1

                if type(what) is int:
                    block = self._pop_smallest(what)
                    if block is None:
                        break
                    if repeats:
                        _retake(taking, repeats, ledger)
                        repeats = 0
                    size = -(-what // BLOCK) * BLOCK
                    taking = self.take_block(block, size, what, used, ledger)
                    entry[0] = last = block
                    requested = what
                    done += 1
                elif what is None or what.pool is not self:
                    break
                else:
                    freed = what
        finally:
            if repeats:
                _retake(taking, repeats, ledger)
            del log[:done]

    def _pop_smallest(self, requested: int) -> Block | None:
        """Take out the smallest free block of the default stream, if that is all it needs.

        Requests go to the public pool of small blocks unless something was said about
        where.
        """
        if not requested or not self.serves_log:
            return None
        position = bisect_left(self.free, (0, requested))
        if position == len(self.free):
            return None
        return self.free.pop(position)[-1]

    def take_block(
        self,
        block: Block,
        size: int,
        requested: int,
        used: dict[int, Block],
        ledger: Ledger,
    ) -> Taking:
        """Take the first `size` bytes of a block that was taken out of the pool (malloc).

        C++ keeps the block for the rest, and makes a new one for the request.
        """
        was_split = block.previous is not None or block.next is not None
        left = block.size - size
        rest = None
        if left:
            rest = block.cut(size)
            rest.requested = block.requested
            insort(self.free, (rest.stream, left, rest.address, rest))
        block.used = True
        block.requested = requested
        block.frames = ()
        used[block.address] = block
        ledger.take(size, requested)

        splits = 0
        split_bytes = 0
        if block.range is not None:
            pass  # an expandable segment counts no splits
        elif was_split:  # a piece becomes smaller, or is gone
            splits = 0 if left else -1
            split_bytes = -size
        elif left:  # a whole segment is split
            splits = 1
            split_bytes = left
        if split_bytes:
            ledger.split(splits, split_bytes)
        return Taking(size, requested, rest, splits, split_bytes)

    def free_block(self, block: Block, used: dict[int, Block], ledger: Ledger) -> None:
        """Free a block and join it with its free neighbours (free_block)."""
        size = block.size
        del used[block.address]
        block.used = False
        ledger.free(size, block.requested)

        joined = 0
        for neighbour in (block.previous, block.next):
            if neighbour is not None and not neighbour.used:
                self.join(block, neighbour)
                joined += 1
        insort(self.free, (block.stream, block.size, block.address, block))

        if block.range is not None:
            return  # an expandable segment counts no splits
        if block.previous is not None or block.next is not None:
            ledger.split(1 - joined, size)
        elif joined:  # the segment is whole again
            ledger.split(-joined, size - block.size)

    def pop(self, size: int, stream: int, settings: Settings) -> Block | None:
        """Take out the smallest free block of `stream` with `size` bytes (get_free_block)."""
        position = bisect_left(self.free, (stream, size, 0))
        if position == len(self.free) or self.free[position][0] != stream:
            return None
        if settings.plain:
            return self.free.pop(position)[-1]
        block = self._choose(position, size, stream, settings)
        if block is not None:
            self.remove(block)
        return block

    def _choose(
        self, position: int, size: int, stream: int, settings: Settings
    ) -> Block | None:
        """Choose from `position` on, where blocks can grow or are not split at any size."""
        block = self.free[position][-1]
        if block.range is not None:
            others = [entry[-1] for entry in self.free[position + 1 :]]
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


def _retake(taking: Taking, times: int, ledger: Ledger) -> None:
    """Count that a block was freed, and taken again in the same way, so many times."""
    if taking.rest is not None:
        taking.rest.requested = taking.requested
    ledger.repeat(
        times, taking.size, taking.requested, taking.splits, taking.split_bytes
    )


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
