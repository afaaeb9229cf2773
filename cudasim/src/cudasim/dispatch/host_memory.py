"""Pinned memory of the host, and the figures of PyTorch's allocator for it.

Pinned memory is ordinary memory whose storage carries a `Block` as its mark. What
`torch.cuda.host_memory_stats` reports follows ATen/core/CachingHostAllocator.h of PyTorch
2.13: sizes are powers of two; a block that is given up stays in a cache, for the next
request of its size; one that a copy has used comes back once the copy's stream is done.
Blocks are not kept apart for graphs, and a call of CUDA takes no time.
"""

import threading
from collections import defaultdict
from typing import Any, NamedTuple

import torch

from cudasim.dispatch.times import end_of, now
from cudasim.session import StreamKey, session

PINNED = "_cudasim_pinned"  # the mark of a storage in pinned memory of the host


class Figure:
    """How much there is of something, was at most, and has ever come and gone.

    `device/counts.py` keeps the same for a card, many figures at once and at each
    allocation, so in tuples. Pinned memory is taken seldom, and its totals are reset to 0.
    """

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def increase(self, amount: int) -> None:
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def decrease(self, amount: int) -> None:
        self.current -= amount
        self.freed += amount

    def reset_peak(self) -> None:
        self.peak = self.current

    def reset_totals(self) -> None:
        self.allocated = self.freed = 0


def sum_of(figures: list[Figure]) -> dict[str, int]:
    """Return the sums of figures. That of the peaks is an estimate, as in PyTorch."""
    names = ("current", "peak", "allocated", "freed")
    return {name: sum(getattr(figure, name) for figure in figures) for name in names}


class Returning(NamedTuple):
    """A block that was given up while streams may yet copy from it or to it."""

    size: int
    end: int  # when they are done


class HostMemory:
    """The allocator of pinned memory, of which there is one for all GPUs."""

    def __init__(self) -> None:
        # A block may be given up in the middle of a call.
        self._lock = threading.RLock()
        self._cached: dict[int, int] = defaultdict(int)  # size -> number of free blocks
        self._returning: list[Returning] = []  # in the order of giving up
        self._blocks = Figure()
        self._bytes = Figure()
        # By size, those that are in use.
        self._active_blocks: dict[int, Figure] = defaultdict(Figure)
        self._active_bytes: dict[int, Figure] = defaultdict(Figure)

    def take(self, size: int) -> int:
        """Hand out a block for `size` bytes; return its size."""
        rounded = 1 << (size - 1).bit_length()
        with self._lock:
            self._collect()
            if self._cached[rounded]:
                self._cached[rounded] -= 1
            else:
                self._blocks.increase(1)
                self._bytes.increase(rounded)
            self._active_blocks[rounded].increase(1)
            self._active_bytes[rounded].increase(rounded)
        return rounded

    def give_up(self, size: int, streams: set[StreamKey]) -> None:
        """Take a block back, at the latest when `streams` are done.

        Those of a simulation that has ended are.
        """
        is_busy = streams and session.host_memory is self
        with self._lock:
            if is_busy:
                end = max(end_of(*stream) for stream in streams)
                self._returning.append(Returning(size, end))
            else:
                self._cache(size)

    def _collect(self) -> None:
        """Put the blocks whose streams are done into the cache, up to one that is not."""
        while self._returning and self._returning[0].end <= now():
            self._cache(self._returning.pop(0).size)

    def _cache(self, size: int) -> None:
        self._cached[size] += 1
        self._active_blocks[size].decrease(1)
        self._active_bytes[size].decrease(size)

    def empty_cache(self) -> None:
        with self._lock:
            self._collect()
            for size, number in self._cached.items():
                self._blocks.decrease(number)
                self._bytes.decrease(number * size)
            self._cached.clear()

    def _figures(self) -> list[Figure]:
        active = (*self._active_blocks.values(), *self._active_bytes.values())
        return [self._blocks, self._bytes, *active]

    def reset_peaks(self) -> None:
        with self._lock:
            for figure in self._figures():
                figure.reset_peak()

    def reset_totals(self) -> None:
        with self._lock:
            for figure in self._figures():
                figure.reset_totals()

    def stats(self) -> dict[str, Any]:
        """Return the figures under the names of torch/csrc/cuda/Module.cpp."""
        with self._lock:
            return {
                "num_host_alloc": self._blocks.allocated,
                "num_host_free": self._blocks.freed,
                "allocations": sum_of([self._blocks]),
                "active_requests": sum_of(list(self._active_blocks.values())),
                "allocated_bytes": sum_of([self._bytes]),
                "active_bytes": sum_of(list(self._active_bytes.values())),
                "host_alloc_time": self._times(self._blocks.allocated),
                "host_free_time": self._times(self._blocks.freed),
            }

    @staticmethod
    def _times(count: int) -> dict[str, int]:
        """Return the microseconds of `count` calls of CUDA, each of which takes none."""
        return {"total": 0, "max": 0, "min": 0, "count": count, "avg": 0}


class Block:
    """The mark of a storage in pinned memory, which is given up when the storage dies."""

    def __init__(self, memory: HostMemory, size: int) -> None:
        self._memory = memory
        self._size = memory.take(size)
        self._streams: set[StreamKey] = set()  # that have copied from it or to it

    def use(self, stream: StreamKey) -> None:
        self._streams.add(stream)

    def __del__(self) -> None:
        self._memory.give_up(self._size, self._streams)


def host_memory() -> HostMemory:
    """Return the allocator of this simulation."""
    if session.host_memory is None:
        session.host_memory = HostMemory()
    return session.host_memory


def pin_storage(storage: torch.UntypedStorage) -> None:
    """Mark a storage as pinned. One of no bytes has no memory that could be."""
    size = storage.nbytes()
    if size:
        setattr(storage, PINNED, Block(host_memory(), size))


def note_copy(storage: torch.UntypedStorage, stream: StreamKey) -> None:
    """Keep pinned memory from being reused before a copy on `stream` is done."""
    block = getattr(storage, PINNED, None)
    if block is not None:
        block.use(stream)
