"""The memory of one simulated GPU, managed as CUDA's caching allocator manages it.

Sizes, the choice of a block, when it is split and what is given back are those of
c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11 to 2.13, whose functions are named in
brackets. The driver decides where a segment lies; here it lies at the lowest free
address. A block that was used on several streams (`record_stream`) is free at once.
All sizes are in bytes.
"""

import sys
import threading
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from cudasim.device import sizes
from cudasim.device.counts import Ledger, Total
from cudasim.device.history import ALL, NEVER, STATE, Frames, History
from cudasim.device.pools import Block, Pool, PoolId, PrivatePools, Range
from cudasim.device.settings import Settings
from cudasim.device.sizes import SMALL, round_up
from cudasim.device.types import DeviceType

# What an allocation holds: [bytes] until its block is cut, then [block].
Held = list[Any]
WIDEST = 16  # bytes of a complex number, the widest type there is


def default_stream() -> int:
    """Return the number of the default stream, on which every thread begins."""
    return 0


class Memory:
    """What a card's memory holds; `limit` is what PyTorch may take of its `size` bytes."""

    def __init__(self, index: int, size: int, type: DeviceType) -> None:
        self.index = index
        self.size = size
        self.limit = size
        self.fraction = 1.0  # of the card, which the limit is
        self.type = type
        self.settings = Settings()
        self.context = 0  # bytes of the context, once this process has used the card

        self.small = Pool(small=True)
        self.large = Pool(small=False)
        self.private: dict[PoolId, PrivatePools] = {}
        # Which pools serve a request: the first whose function returns True.
        self.routes: list[tuple[PoolId, Callable[[], bool]]] = []
        self.used: dict[int, Block] = {}  # by address
        self._segments: list[tuple[int, int]] = []  # (address, size), sorted
        self._counts = Total(self.small.counts, self.large.counts)
        self.history: History | None = None

        # Set by `suspend`: the thread that takes nothing, 0 if none.
        self._suspended = 0
        # Set by `set_check`: raises where nothing can be taken any more.
        self.check: Callable[[], None] | None = None
        # Set by `set_stream`: returns the number of the current stream.
        self.stream = default_stream

        # Set by others:
        # - called when memory is refused
        self.observers: list[Callable[[int, int, int, int], None]] = []
        # - called when segments come or go
        self.watch: Callable[[], None] = lambda: None
        # - called before the books are settled: they give back what nobody holds any more
        self.collectors: list[Callable[[], None]] = []
        # - called before a segment is taken for a stream of this card; it may refuse that
        self.before_segment: Callable[[int, int], None] | None = None
        # - the other processes that use the card, and how many bytes each has
        self.others: Callable[[], list[tuple[int, int]]] = list
        # - held while the driver is asked for memory
        self.driver: AbstractContextManager = nullcontext()

        # Re-entrant: a garbage collection inside can free blocks of this very memory.
        self._lock = threading.RLock()
        self._busy = False
        # What was taken and given back, in this order, since the books were last
        # settled. What an allocation holds is in it when it is taken, and once more
        # when it is given back.
        self.log: list[Held] = []
        self.give_back: Callable[[Held], None] = self.log.append
        # This many bytes can surely be taken by way of the log. They are free in one
        # block of the small pool, so no segment is needed, whatever comes before.
        self.slack = 0
        # This many numbers of any type surely fit, so the host may make them first.
        self.room = 0
        self.reset_totals()

    def take(self, requested: int) -> Block | None:
        """Cut a block for `requested` bytes (malloc); None in a suspended thread."""
        if self.check:
            self.check()
        if self._suspended == threading.get_ident():
            return None
        return self.settle(self._take, requested)

    def suspend(self) -> None:
        """Take nothing in this thread, because it replays a graph that has its memory."""
        self._set_suspended(threading.get_ident())

    def resume(self) -> None:
        """Take memory again in every thread."""
        self._set_suspended(0)

    def _set_suspended(self, thread: int) -> None:
        def change() -> None:
            self._suspended = thread

        self.settle(change)

    def set_check(self, check: Callable[[], None] | None) -> None:
        """Call `check` before memory is taken; it raises if there is none any more."""

        def change() -> None:
            self.check = check

        self.settle(change)

    def set_stream(self, current_stream: Callable[[], int]) -> None:
        """Take memory for the stream whose number `current_stream` returns."""

        def change() -> None:
            self.stream = current_stream

        self.settle(change)

    def settle(self, action: Callable[..., Any] | None = None, *args: Any) -> Any:
        """Do what the log says, then return `action(*args)`.

        What a garbage collection gives back meanwhile waits in the log.
        """
        with self._lock:
            if self._busy:
                return action and action(*args)
            self._busy = True
            try:
                for collect in tuple(self.collectors):
                    collect()
                self._replay()
                return action and action(*args)
            finally:
                if self.history is not None:
                    self._replay()
                self._busy = False
                self.slack = self._find_slack()
                self.room = (self.limit - self.reserved) // WIDEST

    @property
    def _is_plain(self) -> bool:
        """Is every request served by size alone, on the default stream?"""
        is_default = self.stream is default_stream
        is_special = bool(self.routes) or self.history is not None
        return self.settings.plain and is_default and not is_special

    def _find_slack(self) -> int:
        if not self._is_plain or self._suspended or self.check:
            return 0
        if not self.small.free:
            return 0
        largest = self.small.free[-1][1]
        return min(largest, SMALL)

    def _give_back_at_once(self, held: Held) -> None:
        self.log.append(held)
        self.settle()

    def _replay(self) -> None:
        """Take and free as the log says."""
        log = self.log
        is_plain = self._is_plain
        while log:  # which may grow meanwhile
            first = log[0][0]
            if is_plain and first:
                pool = self.small if type(first) is int else first.pool
                with Ledger(self._counts, pool.counts) as ledger:
                    pool.replay(log, self.used, ledger)
            if log and log[0][0] is first:  # the pool could not do it
                self._replay_one(log.pop(0))

    def _replay_one(self, held: Held) -> None:
        what = held[0]
        if type(what) is int:
            held[0] = self._take(what) if what else None
        elif what is not None:
            self._free(what)

    def _take(self, requested: int) -> Block:
        settings = self.settings
        size = settings.round(requested)
        home = self._home() if self.routes else self
        pool = home.small if size <= SMALL else home.large
        stream = self.stream()
        frames = self.history.here(STATE) if self.history else ()

        block = pool.pop(size, stream, settings)
        if block is None:
            block = self._grow(pool, size, stream, frames)
        if not pool.small and not settings.expandable:  # (should_split)
            if block.size - size <= SMALL or size >= settings.max_split:
                size = block.size
        with Ledger(self._counts, pool.counts) as ledger:
            pool.take_block(block, size, requested, self.used, ledger)
        block.frames = frames
        if self.history is not None:
            self._note("alloc", block, requested, NEVER, frames)
        return block

    def _free(self, block: Block) -> None:
        if self.history is not None:
            for action in ("free_requested", "free_completed"):
                self._note(action, block, block.requested, ALL, block.frames)
            block.frames = ()
        with Ledger(self._counts, block.pool.counts) as ledger:
            block.pool.free_block(block, self.used, ledger)

    def _note(
        self, action: str, block: Block, size: int, level: int, frames: Frames = ()
    ) -> None:
        """Tell the history, if one is kept, with the code that runs now or `frames`."""
        if self.history is not None:
            frames = self.history.here(level) or frames
            self.history.add(action, block.address, size, block.stream, frames)

    # The driver

    def touch(self) -> None:
        """Make the context, if this process has not used the card before."""
        if self.context != self.type.context:
            self.context = self.type.context
            self.watch()

    @property
    def free(self) -> int:
        """Bytes that are in no segment and no context, of this process or another."""
        of_others = sum(size for _, size in self.others())
        return max(self.size - self.context - self.reserved - of_others, 0)

    def _grow(self, pool: Pool, size: int, stream: int, frames: Frames) -> Block:
        """Return a new block with room for `size` bytes, which is not in the pool yet.

        Raises the error of CUDA if the driver has none.
        """
        self.touch()
        if pool.small or size < sizes.HUGE:
            wanted = pool.segment_size
        else:
            wanted = round_up(size, sizes.ROUNDING)
        ask_driver = partial(self._from_driver, pool, size, wanted, stream)

        block = ask_driver()
        if block is None and self._release_oversize(pool, size, stream):
            block = ask_driver()
        if block is None:
            self._release_all()
            self.retries += 1
            block = ask_driver()
        if block is None:
            self._refuse(wanted, stream, frames)

        block.origin = frames
        if block.range is None:
            self._note("segment_alloc", block, block.size, NEVER, frames)
        return block

    def _refuse(self, wanted: int, stream: int, frames: Frames) -> None:
        self.refusals += 1
        if self.history:
            self.history.add("oom", 0, wanted, stream, frames, device_free=self.free)
        for observe in self.observers:
            observe(self.index, wanted, self.size, self.free)
        raise self.type.out_of_memory(self, wanted)

    def _from_driver(
        self, pool: Pool, size: int, wanted: int, stream: int
    ) -> Block | None:
        """Return a block from the driver, if there is room for it (alloc_block)."""
        if self.reserved + wanted > self.limit:
            return None
        with self.driver:
            if self.settings.expandable:
                return self._expand(pool, size, stream)
            if self.before_segment is not None:
                self.before_segment(self.index, stream)
            if wanted > self.free:
                return None
            self.driver_allocations += 1
            block = Block(pool, stream, self._find_addresses(wanted), wanted)
            self._reserve(pool, wanted, 1)
            return block

    def _find_addresses(self, size: int) -> int:
        """Take the lowest `size` addresses that are free; return the first."""
        address = sizes.FIRST + (self.index << 40)
        for position, (begin, length) in enumerate(self._segments):
            if begin - address >= size:
                self._segments.insert(position, (address, size))
                return address
            address = begin + length
        self._segments.append((address, size))
        return address

    def _reserve(self, pool: Pool, size: int, segments: int) -> None:
        """Count what was taken from the driver; what was given back is below 0."""
        self._counts.reserve(pool.counts, size, segments)
        self.watch()

    def _release_oversize(self, pool: Pool, size: int, stream: int) -> bool:
        """Give back blocks that are too large to be split (release_available_...).

        Tells whether there were enough of them.
        """
        max_split = self.settings.max_split
        if max_split == sys.maxsize:
            return False

        least = max(size, max_split)
        position = bisect_left(pool.free, (stream, least, 0))
        if position < len(pool.free) and pool.free[position][0] == stream:
            block = pool.free[position][-1]
            if block.range is None:
                self._release(block)
                return True

        released = 0
        smaller = [entry for entry in pool.free[:position] if entry[0] == stream]
        for _, length, _, block in reversed(smaller):
            if released >= least or length < max_split:
                break
            if block.range is None:
                self._release(block)
                released += length
        return released >= least

    def _release(self, block: Block) -> None:
        """Give a whole segment back to the driver (release_block)."""
        block.pool.remove(block)
        self._segments.remove((block.address, block.size))
        self.driver_frees += 1
        self._note("segment_free", block, block.size, ALL, block.origin)
        self._reserve(block.pool, -block.size, -1)

    def _release_all(self) -> None:
        """Give back all that is reserved and holds no block (release_cached_blocks)."""
        self.stream_syncs += 1
        unused = [pools for pools in self.private.values() if not pools.users]
        self._release_free(self.large)
        self._release_free(self.small)
        for pools in unused:
            self._release_free(pools.large)
            self._release_free(pools.small)

        in_use = {block.pool for block in self.used.values()}
        for pools in unused:
            both = (pools.large, pools.small)
            if not any(pool in in_use or pool.blocks() for pool in both):
                del self.private[pools.id]

    def _release_free(self, pool: Pool) -> None:
        """Give back what is free of a pool: whole segments, and pieces of those that expand."""
        free = [entry[-1] for entry in pool.free]
        for block in free:
            if block.range is None and not block.is_split:
                self._release(block)
        for block in free:
            if block.range is not None:
                self._unmap(block)
                if not block.is_split and not block.mapped:
                    pool.remove(block)
                    self._segments.remove((block.range.address, block.range.size))

    def empty_cache(self) -> None:
        self.settle(self._release_all)

    # Expandable segments

    def _expand(self, pool: Pool, size: int, stream: int) -> Block | None:
        """Return a block at the end of a segment that grows, or None if there is no
        memory for it (try_allocate_expandable_block)."""
        block = self._find_expandable(pool, size, stream)
        if not block.mapped and not self._map(block, min(block.size, size)):
            return None
        while block.size < size:
            behind = block.next
            if not self._map(behind, min(size - block.size, behind.size)):
                return None
            block = behind  # which has taken in what was before it
        pool.remove(block)
        return block

    def _find_expandable(self, pool: Pool, size: int, stream: int) -> Block:
        """Return the first block, free or unmapped, from which `size` bytes can be had."""
        for _, _, block in [entry for entry in pool.unmapped if entry[0] == stream]:
            if block.previous is not None and not block.previous.used:
                block = block.previous
            if _growable_from(block) >= size:
                return block

        length = round_up(self.size + self.size // 8, pool.segment_size)
        range = Range(self._find_addresses(length), length)
        block = Block(pool, stream, range.address, length, range)
        block.mapped = False
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Put memory behind the first `size` bytes of `block` (map_block).

        An expandable segment has memory in pieces of the size of an ordinary segment.
        """
        pool = block.pool
        mapped = round_up(size, pool.segment_size)
        if mapped > self.free:
            return False
        pool.remove(block)
        if mapped < block.size:
            pool.insert(block.cut(mapped))
        block.mapped = True
        self._insert_joined(block)
        self.driver_allocations += 1
        self._note("segment_map", block, mapped, STATE)
        self._reserve(pool, mapped, 0)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the whole pieces of memory behind a free `block` (unmap_block)."""
        pool = block.pool
        start = block.range.address
        begin = start + round_up(block.address - start, pool.segment_size)
        pieces = (block.end - start) // pool.segment_size
        end = start + pieces * pool.segment_size
        if begin >= end:
            return

        pool.remove(block)
        if block.end > end:
            pool.insert(block.cut(end - block.address))
        if begin > block.address:
            pool.insert(block.cut_before(begin - block.address))
        block.mapped = False
        self._note("segment_unmap", block, block.size, ALL)
        self._insert_joined(block)
        self.driver_frees += 1
        self._reserve(pool, begin - end, 0)

    def _insert_joined(self, block: Block) -> None:
        pool = block.pool
        pool.join(block, block.previous)
        pool.join(block, block.next)
        pool.insert(block)

    # Private pools

    def begin_pool(self, id: PoolId, serves: Callable[[], bool]) -> None:
        """Take from private pools while `serves()` is true (beginAllocateToPool)."""
        if id not in self.private:
            small, large = self.small.counts, self.large.counts
            self.private[id] = PrivatePools(id, small, large)
        self.private[id].users += 1
        self.settle(self.routes.append, (id, serves))

    def end_pool(self, id: PoolId) -> None:
        """End what began last with these pools (endAllocateToPool)."""
        for position in reversed(range(len(self.routes))):
            route_id, _ = self.routes[position]
            if route_id == id:
                self.settle(self.routes.pop, position)
                return

    def release_pool(self, id: PoolId) -> None:
        """Note that a user is gone (releasePool).

        Without any, `empty_cache` gives the segments back.
        """
        if id in self.private:
            self.private[id].users -= 1

    def _home(self) -> "Memory | PrivatePools":
        for id, serves in self.routes:
            if serves():
                return self.private[id]
        return self

    # Figures

    @property
    def reserved(self) -> int:
        return self._counts.now[-1]

    @property
    def counts(self) -> Total:
        self.settle()
        return self._counts

    def record(self, history: History | None) -> None:
        """Keep a `history` from now on, or none.

        With one, a block that is given back is freed at once, so that it is noted.
        """

        def change() -> None:
            self.history = history
            self.give_back = self._give_back_at_once if history else self.log.append

        self.settle(change)

    def set_fraction(self, fraction: float) -> None:
        """Limit PyTorch to this part of the card; 0 is no limit, on MPS."""
        limit = self.type.memory_limit(fraction, self.size)

        def change() -> None:
            self.fraction = fraction
            self.limit = limit

        self.settle(change)

    def reset_peaks(self) -> None:
        for counts in (self.small.counts, self.large.counts, self.counts):
            counts.most = counts.now

    def reset_totals(self) -> None:
        self.settle()
        for kind in self._counts.kinds:
            kind.at_reset = kind.allocated, kind.now
        self.retries = 0  # requests for which the cache was emptied
        self.refusals = 0
        self.driver_allocations = 0  # calls of the driver for memory
        self.driver_frees = 0  # calls of the driver that give some back
        self.stream_syncs = 0  # for all streams, before free segments are given back

    def segments(self) -> list[list[Block]]:
        """Return the blocks of each segment in the order of their addresses (snapshot)."""
        return self.settle(self._find_segments)

    def _find_segments(self) -> list[list[Block]]:
        blocks = list(self.used.values())
        for pools in (self, *self.private.values()):
            blocks += pools.small.blocks()
            blocks += pools.large.blocks()

        segments: list[list[Block]] = []
        for block in sorted(blocks, key=lambda block: block.address):
            if not block.mapped:
                continue
            if block.previous is None or not block.previous.mapped:
                segments.append([])
            segments[-1].append(block)
        return segments


def _growable_from(block: Block | None) -> int:
    """Return the size of the free and unmapped blocks from this one on."""
    size = 0
    while block is not None and not block.used:
        size += block.size
        block = block.next
    return size
