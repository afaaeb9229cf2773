"""The memory of one simulated GPU, managed as CUDA's caching allocator manages it.

The allocator takes segments from the driver, cuts blocks from them, and keeps a segment when
its blocks are freed (https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management).
The sizes below are those of c10/cuda/CUDACachingAllocator.cpp. Where in a segment a block lies
is not modelled: a segment is never too fragmented to be filled. All sizes are in bytes.
"""

import threading
from collections.abc import Callable
from typing import Any

from cudasim.device.types import DeviceType

BLOCK = 512  # every request is rounded up to a multiple of this
SMALL = 2**20  # the largest request that the pool of small blocks serves
SMALL_SEGMENT = 2 * 2**20  # taken from the driver for small requests
LARGE_SEGMENT = 20 * 2**20  # taken for larger ones, below the next
HUGE = 10 * 2**20  # from here on a request has a segment of its own, of whole SMALL_SEGMENTs


class Segment:
    """A piece of the card that the allocator holds; `free` of its `size` bytes are in no block."""

    __slots__ = ("free", "pool", "size")

    def __init__(self, pool: "Pool", size: int) -> None:
        """A segment of `size` bytes with no block in it."""
        self.pool, self.size, self.free = pool, size, size


class Counts:
    """How many blocks and bytes there are, were at most, and have ever been."""

    NAMES = ("blocks", "used", "requested", "segments", "reserved")
    __slots__ = ("before", *(name + end for name in NAMES for end in ("", "_peak", "_taken")))

    def __init__(self) -> None:
        """Nothing yet."""
        for name in self.__slots__:
            setattr(self, name, 0)
        self.before: dict[str, tuple[int, int]] = {}  # (taken, current) when totals were reset

    def add(self, used: int, requested: int) -> None:
        """A block of `used` bytes, for a request of `requested`."""
        self.blocks += 1
        self.blocks_taken += 1
        self.used += used
        self.used_taken += used
        self.requested += requested
        self.requested_taken += requested
        if self.used > self.used_peak:
            self.used_peak = self.used
        if self.requested > self.requested_peak:
            self.requested_peak = self.requested
        if self.blocks > self.blocks_peak:
            self.blocks_peak = self.blocks

    def remove(self, used: int, requested: int) -> None:
        """Such a block is free again."""
        self.blocks -= 1
        self.used -= used
        self.requested -= requested

    def reserve(self, size: int) -> None:
        """A segment of `size` bytes was taken from the driver."""
        self.segments += 1
        self.segments_taken += 1
        self.reserved += size
        self.reserved_taken += size
        self.segments_peak = max(self.segments_peak, self.segments)
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def release(self, size: int) -> None:
        """Such a segment was given back."""
        self.segments -= 1
        self.reserved -= size

    def reset_peaks(self) -> None:
        """Restart the peaks from what there is now."""
        for name in self.NAMES:
            setattr(self, f"{name}_peak", getattr(self, name))

    def reset_totals(self) -> None:
        """Count what is taken and freed from now on."""
        for name in self.NAMES:
            self.before[name] = (getattr(self, f"{name}_taken"), getattr(self, name))

    def stat(self, name: str) -> dict[str, int]:
        """One figure in the form of `memory_stats`."""
        now, taken = getattr(self, name), getattr(self, f"{name}_taken")
        taken_before, now_before = self.before.get(name, (0, 0))
        return {
            "current": now,
            "peak": getattr(self, f"{name}_peak"),
            "allocated": taken - taken_before,
            "freed": (taken - now) - (taken_before - now_before),
        }


class Pool:
    """The segments from which blocks of one kind, small or large, are cut."""

    def __init__(self, small: bool) -> None:
        """A pool without a segment."""
        self.small = small
        self.segments: list[Segment] = []
        self.latest: Segment | None = None  # looked at first: it mostly has room
        self.counts = Counts()

    def find(self, size: int) -> Segment | None:
        """The fullest segment with room for `size` bytes; None if there is none."""
        fitting = [segment for segment in self.segments if segment.free >= size]
        return min(fitting, key=lambda segment: segment.free, default=None)


class Memory:
    """What a card's memory holds; `limit` is what PyTorch may take of its `size` bytes."""

    def __init__(self, index: int, size: int, type: DeviceType) -> None:
        """The empty memory, of `size` bytes, of GPU number `index` of that `type`."""
        self.index, self.size, self.limit, self.type = index, size, size, type
        self.fraction = 1.0
        self.small, self.large = Pool(small=True), Pool(small=False)
        self.counts = Counts()
        self.retries = self.refusals = 0
        self.segments_freed = 0
        self.watch: Callable[[], None] | None = None  # called when segments come or go
        # Re-entrant: a garbage collection inside can free blocks of this very memory.
        self._lock = threading.RLock()

    def take(self, requested: int) -> tuple[Segment, int]:
        """Cut a block for `requested` bytes: (its segment, its size).

        Raises PyTorch's error if the card has not so much left; the counts are then
        as they were.
        """
        size = -(-requested // BLOCK) * BLOCK or BLOCK
        with self._lock:
            pool = self.small if size <= SMALL else self.large
            segment = pool.latest
            if segment is None or segment.free < size:
                segment = pool.latest = pool.find(size) or self._grow(pool, size)
            if not pool.small and segment.free - size <= SMALL:
                size = segment.free  # the allocator does not split off so small a rest
            segment.free -= size
            self.counts.add(size, requested)
            pool.counts.add(size, requested)
        return segment, size

    def give_back(self, segment: Segment, size: int, requested: int) -> None:
        """A block is free again; its segment stays reserved."""
        with self._lock:
            segment.free += size
            segment.pool.latest = segment
            segment.pool.counts.remove(size, requested)
            self.counts.remove(size, requested)

    def _grow(self, pool: Pool, size: int) -> Segment:
        """A new segment with room for `size` bytes, from the driver."""
        if pool.small:
            wanted = SMALL_SEGMENT
        elif size < HUGE:
            wanted = LARGE_SEGMENT
        else:
            wanted = -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
        if self.counts.reserved + wanted > self.limit:
            self.retries += 1
            self.empty_cache()
            if self.counts.reserved + wanted > self.limit:
                self.refusals += 1
                raise self.type.out_of_memory(self, wanted)
        segment = Segment(pool, wanted)
        pool.segments.append(segment)
        pool.counts.reserve(wanted)
        self.counts.reserve(wanted)
        self._tell()
        return segment

    def empty_cache(self) -> None:
        """Give the driver back every segment that no block is in."""
        with self._lock:
            before = self.counts.reserved
            for pool in (self.small, self.large):
                for segment in [each for each in pool.segments if each.free == each.size]:
                    pool.segments.remove(segment)
                    pool.counts.release(segment.size)
                    self.counts.release(segment.size)
                    self.segments_freed += 1
                pool.latest = None
        if self.counts.reserved != before:
            self._tell()

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch()

    def set_fraction(self, fraction: float) -> None:
        """Limit PyTorch to this part of the card; 0 is no limit, on MPS."""
        self.fraction, self.limit = fraction, self.type.memory_limit(fraction, self.size)

    def reset_peaks(self) -> None:
        """Restart every peak from what is held now."""
        for counts in (self.counts, self.small.counts, self.large.counts):
            counts.reset_peaks()

    def reset_totals(self) -> None:
        """Restart every count of what was taken and freed."""
        for counts in (self.counts, self.small.counts, self.large.counts):
            counts.reset_totals()
        self.retries = self.refusals = self.segments_freed = 0

    def stats(self) -> dict[str, Any]:
        """The figures, named and nested as `torch.cuda.memory_stats_as_nested_dict` has them."""
        kinds = {"all": self.counts, "small_pool": self.small.counts}
        kinds["large_pool"] = self.large.counts
        names = {
            "allocation": "blocks",
            "segment": "segments",
            "active": "blocks",
            "allocated_bytes": "used",
            "reserved_bytes": "reserved",
            "active_bytes": "used",
            "requested_bytes": "requested",
        }
        result: dict[str, Any] = {
            "num_alloc_retries": self.retries,
            "num_ooms": self.refusals,
            "max_split_size": -1,
            "num_sync_all_streams": 0,
            "num_device_alloc": self.counts.segments_taken,
            "num_device_free": self.segments_freed,
            "num_oom_rejections": 0,
        }
        for public, name in names.items():
            result[public] = {kind: counts.stat(name) for kind, counts in kinds.items()}
        result["inactive_split"] = self._split(lambda segment: 1)
        result["inactive_split_bytes"] = self._split(lambda segment: segment.free)
        nothing = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
        result["oversize_allocations"], result["oversize_segments"] = nothing, dict(nothing)
        return result

    def _split(self, measure: Callable[[Segment], int]) -> dict[str, dict[str, int]]:
        """What is free in segments that hold blocks: the present figure only, no history."""
        result = {}
        for kind, pool in (("small_pool", self.small), ("large_pool", self.large)):
            now = sum(measure(each) for each in pool.segments if 0 < each.free < each.size)
            result[kind] = {"current": now, "peak": now, "allocated": now, "freed": 0}
        both = zip(result["small_pool"].items(), result["large_pool"].values(), strict=True)
        return {"all": {name: one + other for (name, one), other in both}, **result}
