"""Measure the memory that tensors occupy on a device, and replay allocations.

All sizes are in bytes, except those in a script of allocations, which are in MiB.
"""

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cudasim.device.sizes import MIB
from cudasim.lab.allocator import (
    Allocator,
    Block,
    Segments,
    Step,
    play_on,
    settings_text,
)
from cudasim.lab.devices import accelerator, as_device, session, try_gpu

USED = "active_allocated"  # what a snapshot says of a block that holds a tensor


def allocated(device: torch.device | str | int = 0) -> int:
    """Return the bytes that tensors occupy on a GPU, or 0 for the CPU, which has no count."""
    place = as_device(device)
    if place.type == "cpu":
        return 0
    if place.type == "mps":  # which torch.accelerator counts since PyTorch 2.13
        return torch.mps.current_allocated_memory()
    return torch.accelerator.memory_allocated(place)


def peak(work: Callable[[], Any], device: torch.device | str | int = 0) -> int:
    """Return the largest number of bytes in use on a device while `work()` runs.

    Memory that was in use before is not counted. On a GPU the number comes from PyTorch's
    allocator, whose record of the highest value is reset. On the CPU and with MPS, PyTorch
    keeps no such record. There the storages of all results are added up, each rounded up
    to 512 bytes, and the memory that an operation needs temporarily is missing.
    """
    gc.collect()  # or what it frees meanwhile would be missing
    place = as_device(device)
    if place.type in ("cpu", "mps"):
        return _peak_of_results(work, place)
    before = allocated(place)
    torch.accelerator.reset_peak_memory_stats(place)
    work()
    return torch.accelerator.max_memory_allocated(place) - before


def _peak_of_results(work: Callable[[], Any], device: torch.device) -> int:
    from cudasim.lab.storages import Storages

    with Storages(device) as storages:
        work()
    return storages.peak


# The caching allocator


def play(
    script: Iterable[Step],
    *,
    roundup: int = 0,
    max_split: int | None = None,
    expandable: bool = False,
) -> Segments:
    """Return the segments that PyTorch's allocator holds after a script of allocations.

    In the script, `('A', 5)` creates a tensor A of 5 MiB, `('A', 0)` deletes it, and
    `'empty_cache'` empties the cache. The script runs on the allocator of the first CUDA
    GPU, real or simulated, on a stream that is used for nothing else, and its tensors are
    deleted at the end. Without CUDA, the script runs on the model, `Allocator`, whose
    docstring explains the options. If the real allocator does not support expandable
    segments, it returns ordinary ones.
    """
    if accelerator() != "cuda":
        return Allocator(roundup, max_split, expandable).play(script).segments
    text = settings_text(roundup, max_split, expandable)
    with _settings(text), _OnGpu() as gpu:
        play_on(gpu, script)
        return gpu.segments()


class _OnGpu:
    """The real allocator of the first GPU, on a stream that nothing else uses."""

    def __init__(self) -> None:
        self.device = try_gpu()
        running = session()
        self.stream = _stream(self.device, running and running.mode)
        self.tensors: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}  # of tensors, by the address of their block

    def __enter__(self) -> "_OnGpu":
        torch.cuda.empty_cache()  # of what scripts before have left
        self.block = torch.cuda.stream(self.stream)
        self.block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.block.__exit__(*error)
        self.tensors.clear()
        torch.cuda.empty_cache()

    def allocate(self, name: str, mib: float) -> None:
        if name in self.tensors:
            raise ValueError(f"'{name}' is allocated already; free it first")
        before = self._used_addresses()
        size = int(mib * MIB)
        self.tensors[name] = torch.empty(size, dtype=torch.uint8, device=self.device)
        [address] = self._used_addresses() - before
        self.names[address] = name

    def free(self, name: str) -> None:
        del self.tensors[name]

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()

    def segments(self) -> Segments:
        segments = []
        for snapshot in self._snapshots():
            blocks = []
            for block in snapshot["blocks"]:
                is_used = block["state"] == USED
                name = self.names[block["address"]] if is_used else None
                blocks.append(Block(block["size"], name))
            segments.append(blocks)
        return Segments(segments)

    def _snapshots(self) -> list[dict[str, Any]]:
        """Return the segments of the stream as PyTorch describes them."""
        stream = self.stream.cuda_stream
        return [
            segment
            for segment in torch.cuda.memory_snapshot()
            if segment["stream"] == stream and segment["device"] == self.device.index
        ]

    def _used_addresses(self) -> set[int]:
        addresses = set()
        for segment in self._snapshots():
            for block in segment["blocks"]:
                if block["state"] == USED:
                    addresses.add(block["address"])
        return addresses


@cache
def _stream(device: torch.device, simulation: object) -> torch.cuda.Stream:
    """Return the stream for scripts: one for each GPU, and for each simulation of it."""
    return torch.cuda.Stream(device)


@contextmanager
def _settings(text: str) -> Iterator[None]:
    """Let the real allocator follow `text` in a block, and then the program's settings."""
    if not text:
        yield
        return
    from cudasim.torch_private.devices import ACCELERATOR

    change = ACCELERATOR.attribute("setAllocatorSettings").read()
    change(text)
    try:
        yield
    finally:
        own = os.environ.get("PYTORCH_ALLOC_CONF")
        own = own or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        change(",".join(filter(None, ["expandable_segments:False", own])))
