"""What PyTorch says when the memory of a GPU is full.

The texts are those of `c10/cuda/CUDACachingAllocator.cpp`, `c10/xpu/XPUCachingAllocator.cpp` and
`aten/src/ATen/mps/MPSAllocator.mm`. All sizes are in bytes.
"""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from cudasim.device.allocator import Memory


def refusal(memory: "Memory", size: int) -> RuntimeError:
    """The error for a segment of `size` bytes for which `memory` has no room."""
    return {"cuda": _cuda, "mps": _mps, "xpu": _xpu}[memory.kind.type](memory, size)


def _cuda(memory: "Memory", size: int) -> RuntimeError:
    used, reserved = memory.counts.used, memory.counts.reserved
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {in_units(size)}. GPU {memory.index} has a "
        f"total capacity of {in_units(memory.size)} of which {in_units(memory.size - reserved)} "
        f"is free. Including non-PyTorch memory, this process has {in_units(reserved)} "
        f"memory in use. {_allowed(memory)}Of the allocated memory {in_units(used)} is allocated "
        f"by PyTorch, and {in_units(reserved - used)} is reserved by PyTorch but unallocated. "
        "If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


def _xpu(memory: "Memory", size: int) -> RuntimeError:
    used, reserved = memory.counts.used, memory.counts.reserved
    return torch.OutOfMemoryError(
        f"XPU out of memory. Tried to allocate {in_units(size)}. GPU {memory.index} has a "
        f"total capacity of {in_units(memory.size)} of which {in_units(memory.size - reserved)} "
        f"is free. {_allowed(memory)}Of the allocated memory {in_units(used)} is allocated by "
        f"PyTorch, and {in_units(reserved - used)} is reserved by PyTorch but unallocated. "
        "Please use `empty_cache` to release all unoccupied cached memory."
    )


def _mps(memory: "Memory", size: int) -> RuntimeError:
    return RuntimeError(
        f"MPS backend out of memory (MPS allocated: {in_units(memory.counts.reserved)}, other "
        f"allocations: 0 bytes, max allowed: {in_units(memory.limit)}). Tried to allocate "
        f"{in_units(size)} on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable "
        "upper limit for memory allocations (may cause system failure)."
    )


def _allowed(memory: "Memory") -> str:
    return f"{in_units(memory.limit)} allowed; " if memory.limit != memory.size else ""


def in_units(size: int) -> str:
    """A number of bytes as PyTorch's allocators print it: `512.00 MiB`."""
    if size <= 1024:
        return f"{size} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size <= 1024:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} GiB"
