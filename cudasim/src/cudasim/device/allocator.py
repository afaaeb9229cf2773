"""The memory of one simulated GPU, managed as CUDA's caching allocator manages it.

Sizes, the choice of a block, when it is split and what is given back are those of
c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11 to 2.13, whose functions are named below. Where
the driver puts a segment is its own affair: here at the lowest address that is free. A block used
on several streams (`record_stream`) is free at once. All sizes are in bytes."""

import sys
import threading
from bisect import bisect_left
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from cudasim.device import sizes
from cudasim.device.counts import Total
from cudasim.device.history import ALL, NEVER, STATE, Frames, History
from cudasim.device.pools import Block, Pool, PoolId, Private, Range
from cudasim.device.settings import Settings
from cudasim.device.sizes import BLOCK, SMALL
from cudasim.device.types import DeviceType

# What an allocation holds: [bytes] until its block is cut, then [block].
Held = list[Any]
WIDEST = 16  # bytes of a complex number, the widest there is


class Memory:
    """What a card's memory holds; `limit` is what PyTorch may take of its `size` bytes."""

    def __init__(self, index: int, size: int, type: DeviceType) -> None:
        self.index, self.size, self.limit, self.type = index, size, size, type
        self.fraction = 1.0
        self.settings = Settings()
        self.small, self.large = Pool(small=True), Pool(small=False)
        self.private: dict[PoolId, Private] = {}
        self.routes: list[
            tuple[PoolId, Callable[[], bool]]
        ] = []  # what goes to which of them
        self.suspended = (
            0  # the thread that takes nothing: it replays what has its memory
        )
        self.check: Callable[[], None] | None = (
            None  # raises, where nothing can be taken any more
        )
        self.history: History | None = None
        self.observers: list[Callable[[int, int, int, int], None]] = []  # of refusals
        self.used: dict[int, Block] = {}  # by address
        self._counts = Total(self.small.counts, self.large.counts)
        self.context = 0  # bytes of the context, once this process has used the card
        self.stream: Callable[[], int] = (
            int  # which stream is current: 0, the default one
        )
        self.watch: Callable[[], None] = lambda: None  # called when segments come or go
        self.others: Callable[[], list[tuple[int, int]]] = (
            list  # (other process, its bytes)
        )
        self.driver: AbstractContextManager = (
            nullcontext()
        )  # held while it is asked for memory
        self._segments: list[tuple[int, int]] = []  # (address, size), sorted
        # Re-entrant: a garbage collection inside can free blocks of this very memory.
        self._lock, self._busy = threading.RLock(), False
        # What was taken and given back, in this order, since the books were last settled. What
        # an allocation holds is there when it is taken, and again when it is given back.
        self.log: list[Held] = []
        self.give_back: Callable[[Held], None] = self.log.append
        # So many bytes can surely be taken by way of the log: free in one block of the small
        # pool, so that whatever comes before, no segment is needed.
        self.slack = 0
        self.room = (
            0  # numbers of whatever type that surely fit, and the host may make first
        )
        self.reset_totals()

    def take(self, requested: int) -> Block | None:
        """Cut a block for `requested` bytes (malloc); None in a thread that is suspended."""
        if self.check:
            self.check()
        if self.suspended == threading.get_ident():
            return None
        return self.settle(self._take, requested)

    def change(self, **attributes: Any) -> None:
        self.settle(vars(self).update, attributes)

    def settle(self, action: Callable[..., Any] | None = None, *args: Any) -> Any:
        """Do what the log says, and then `action(*args)`; returns what that returns. What a garbage
        collection within gives back waits in the log."""
        with self._lock:
            if self._busy:
                return action and action(*args)
            self._busy = True
            try:
                self._replay()
                return action and action(*args)
            finally:
                if self.history is not None:
                    self._replay()
                self._busy = False
                self.slack = self._find_slack()
                self.room = (self.limit - self.reserved) // WIDEST

    def _find_slack(self) -> int:
        free, simple = self.small.free, self.settings.plain and self.stream is int
        if (
            self.routes
            or self.suspended
            or self.check
            or self.history
            or not (simple and free)
        ):
            return 0
        return min(free[-1][1], SMALL)

    def _give_back_at_once(self, held: Held) -> None:
        self.log.append(held)
        self.settle()

    def _replay(self) -> None:
        """Take and free as the log says."""
        log = self.log
        usual = (
            self.settings.plain
            and self.stream is int
            and not (self.history or self.routes)
        )
        while log:  # which may grow meanwhile
            what = log[0][0]
            if usual and what:
                pool = self.small if type(what) is int else what.pool
                pool.replay(log, self._counts, self.used)
            if log and log[0][0] is what:
                held = log.pop(0)
                if type(held[0]) is int:
                    held[0] = self._take(held[0]) if held[0] else None
                elif held[0] is not None:
                    self._free(held[0])

    def _take(self, requested: int) -> Block:
        size = -(-requested // BLOCK) * BLOCK or BLOCK
        home, stream = self._home() if self.routes else self, self.stream()
        pool = home.small if size <= SMALL else home.large
        frames = self.history.here(STATE) if self.history else ()
        block = pool.pop(size, stream, self.settings) or self._grow(
            pool, size, stream, frames
        )
        settings = self.settings
        if not pool.small and not settings.expandable:  # as should_split
            if block.size - size <= SMALL or size >= settings.max_split:
                size = block.size
        # C++ keeps the block for the rest and makes a new one for the request.
        pool.replay([[requested]], self._counts, self.used, (block, size))
        block.frames = frames
        if self.history is not None:
            self._note("alloc", block, requested, NEVER, frames)
        return block

    def _free(self, block: Block) -> None:
        if self.history is not None:
            for action in ("free_requested", "free_completed"):
                self._note(action, block, block.requested, ALL, block.frames)
            block.frames = ()
        block.pool.replay([[block]], self._counts, self.used)

    def _note(
        self, action: str, block: Block, size: int, level: int, frames: Frames = ()
    ) -> None:
        """Tell the history, if one is kept, of a block: with the code that runs, or `frames`."""
        if self.history is not None:
            frames = self.history.here(level) or frames
            self.history.add(action, block.address, size, block.stream, frames)

    # The driver

    def touch(self) -> None:
        if self.context != self.type.context:
            self.context = self.type.context
            self.watch()

    @property
    def free(self) -> int:
        """Bytes that are in no segment and no context, of this process or another."""
        taken = self.context + self.reserved + sum(size for _, size in self.others())
        return max(self.size - taken, 0)

    def _grow(self, pool: Pool, size: int, stream: int, frames: Frames) -> Block:
        """A new block with room for `size` bytes, from the driver, not in the pool."""
        self.touch()
        wanted = (
            pool.grain
            if pool.small or size < sizes.HUGE
            else round_up(size, sizes.GRAIN)
        )
        ask = partial(self._from_driver, pool, size, wanted, stream)
        block = ask() or (self._release_oversize(pool, size, stream) and ask())
        if not block:
            self._release_all()
            self.retries += 1
            block = ask()
        if not block:
            self.refusals += 1
            if self.history:
                self.history.add(
                    "oom", 0, wanted, stream, frames, device_free=self.free
                )
            for observe in self.observers:
                observe(self.index, wanted, self.size, self.free)
            raise self.type.out_of_memory(self, wanted)
        block.origin = frames
        if block.range is None:
            self._note("segment_alloc", block, block.size, NEVER, frames)
        return block

    def _from_driver(
        self, pool: Pool, size: int, wanted: int, stream: int
    ) -> Block | None:
        """A block from the driver, if there is room for it (alloc_block)."""
        if self.reserved + wanted > self.limit:
            return None
        with self.driver:
            if self.settings.expandable:
                return self._expand(pool, size, stream)
            if wanted > self.free:
                return None
            self.taken += 1
            block = Block(pool, stream, self._find_addresses(wanted), wanted)
            self._reserve(pool, wanted, 1)
            return block

    def _find_addresses(self, size: int) -> int:
        """The lowest `size` addresses that are free, as taken."""
        address = sizes.FIRST + (self.index << 40)
        for place, (begin, length) in enumerate(self._segments):
            if begin - address >= size:
                self._segments.insert(place, (address, size))
                return address
            address = begin + length
        self._segments.append((address, size))
        return address

    def _reserve(self, pool: Pool, size: int, segments: int) -> None:
        """Count what is taken from the driver; what is given, below 0."""
        self._counts.reserve(pool.counts, size, segments)
        self.watch()

    def _release_oversize(self, pool: Pool, size: int, stream: int) -> bool:
        """Give back blocks too large to be split, if there are some (see release_available_...)."""
        least = self.settings.max_split
        if least == sys.maxsize:
            return False
        least, released = max(size, least), 0
        place = bisect_left(pool.free, (stream, least, 0))
        if place < len(pool.free) and pool.free[place][0] == stream:
            block = pool.free[place][-1]
            if block.range is None:
                self._release(block)
                return True
        large = [each for each in pool.free[:place] if each[0] == stream]
        for _, length, _, block in reversed(large):
            if released >= least or length < self.settings.max_split:
                break
            if block.range is None:
                self._release(block)
                released += length
        return released >= least

    def _release(self, block: Block) -> None:
        """Give a whole segment back to the driver (release_block)."""
        block.pool.remove(block)
        self._segments.remove((block.address, block.size))
        self.given += 1
        self._note("segment_free", block, block.size, ALL, block.origin)
        self._reserve(block.pool, -block.size, -1)

    def _release_all(self) -> None:
        """Give back all that is reserved and holds no block (release_cached_blocks)."""
        self.waits += 1
        unused = [each for each in self.private.values() if not each.users]
        for pool in (
            self.large,
            self.small,
            *(pool for each in unused for pool in each.pools),
        ):
            free = [each[-1] for each in pool.free]
            for block in free:
                if block.range is None and not block.is_split:
                    self._release(block)
            for block in free:
                if block.range is not None:
                    self._unmap(block)
                    if not block.is_split and not block.mapped:
                        pool.remove(block)
                        self._segments.remove((block.range.address, block.range.size))
        living = {block.pool for block in self.used.values()}
        for each in unused:
            if not any(pool in living or pool.blocks() for pool in each.pools):
                del self.private[each.id]

    def empty_cache(self) -> None:
        self.settle(self._release_all)

    # Expandable segments

    def _expand(self, pool: Pool, size: int, stream: int) -> Block | None:
        """A block at the end of a segment that grows (try_allocate_expandable_block), or None."""
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
        """The first block, free or unmapped, from which `size` bytes can be had."""
        for block in [each[-1] for each in pool.unmapped if each[0] == stream]:
            if block.previous is not None and not block.previous.used:
                block = block.previous
            found, each = 0, block
            while found < size and each is not None and not each.used:
                found, each = found + each.size, each.next
            if found >= size:
                return block
        length = round_up(self.size + self.size // 8, pool.grain)
        range = Range(self._find_addresses(length), length, pool.grain)
        block = Block(pool, stream, range.address, length, range)
        block.mapped = False
        pool.insert(block)
        return block

    def _map(self, block: Block, size: int) -> bool:
        """Put memory behind the first `size` bytes of `block`, whole grains (map_block)."""
        pool = block.pool
        mapped = round_up(size, pool.grain)
        if mapped > self.free:
            return False
        pool.remove(block)
        if mapped < block.size:
            pool.insert(block.cut(mapped))
        block.mapped = True
        pool.join(block, block.previous)
        pool.join(block, block.next)
        pool.insert(block)
        self.taken += 1
        self._note("segment_map", block, mapped, STATE)
        self._reserve(pool, mapped, 0)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the whole grains of a free `block` (unmap_block)."""
        pool, start = block.pool, block.range.address
        begin = start + round_up(block.address - start, pool.grain)
        end = start + (block.address + block.size - start) // pool.grain * pool.grain
        if begin >= end:
            return
        pool.remove(block)
        if block.address + block.size > end:
            pool.insert(block.cut(end - block.address))
        if begin > block.address:
            before = Block(
                pool, block.stream, block.address, begin - block.address, block.range
            )
            before.previous, before.next, block.previous = block.previous, block, before
            if before.previous is not None:
                before.previous.next = before
            pool.insert(before)
        block.address, block.size, block.mapped = begin, end - begin, False
        self._note("segment_unmap", block, block.size, ALL)
        pool.join(block, block.previous)
        pool.join(block, block.next)
        pool.insert(block)
        self.given += 1
        self._reserve(pool, begin - end, 0)

    # Private pools

    def begin_pool(self, id: PoolId, mine: Callable[[], bool]) -> None:
        """Let what is taken while `mine()` go to private pools (beginAllocateToPool)."""
        private = self.private.setdefault(
            id, Private(id, self.small.counts, self.large.counts)
        )
        private.users += 1
        self.settle(self.routes.append, (id, mine))

    def end_pool(self, id: PoolId) -> None:
        """Let no more go there, of what began last (endAllocateToPool)."""
        places = [place for place, route in enumerate(self.routes) if route[0] == id]
        if places:
            self.settle(self.routes.pop, places[-1])

    def release_pool(self, id: PoolId) -> None:
        """One user is gone: without any, `empty_cache` gives the segments back (releasePool)."""
        if id in self.private:
            self.private[id].users -= 1

    def _home(self) -> "Memory | Private":
        return next((self.private[id] for id, mine in self.routes if mine()), self)

    # What is told

    @property
    def reserved(self) -> int:
        return self._counts.now[-1]

    @property
    def counts(self) -> Total:
        self.settle()
        return self._counts

    def record(self, history: History | None) -> None:
        """Keep a `history` from now on, or none. One tells when a block is given back."""
        give_back = self._give_back_at_once if history else self.log.append
        self.change(history=history, give_back=give_back)

    def set_fraction(self, fraction: float) -> None:
        """Limit PyTorch to this part of the card; 0 is no limit, on MPS."""
        self.change(
            fraction=fraction, limit=self.type.memory_limit(fraction, self.size)
        )

    def reset_peaks(self) -> None:
        for counts in (self.small.counts, self.large.counts, self.counts):
            counts.most = counts.now

    def reset_totals(self) -> None:
        self.settle()
        for kind in self._counts.kinds:
            kind.before = kind.taken, kind.now
        self.retries = self.refusals = 0
        self.taken = self.given = (
            0  # calls of the driver, for memory and to give it back
        )
        self.waits = 0  # for all streams, before free segments are given back

    def segments(self) -> list[list[Block]]:
        """The blocks of each segment, in the order of their addresses (snapshot)."""
        return self.settle(self._find_segments)

    def _find_segments(self) -> list[list[Block]]:
        every = [*self.used.values()]
        for each in (self, *self.private.values()):
            every += each.small.blocks() + each.large.blocks()
        found = []
        for block in sorted(every, key=lambda each: each.address):
            if block.mapped:
                if block.previous is None or not block.previous.mapped:
                    found.append([])
                found[-1].append(block)
        return found


def round_up(size: int, grain: int) -> int:
    return -(-size // grain) * grain
