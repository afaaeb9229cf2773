"""Intel's GPUs."""

from typing import TYPE_CHECKING

from cudasim.device.types.base import DeviceType, allowed, in_units

if TYPE_CHECKING:
    from cudasim.device.allocator import Memory


class XPU(DeviceType):
    """Intel's GPUs."""

    name, key, number, card = "xpu", "XPU", 12, "Max 1100"

    def out_of_memory(self, memory: "Memory", size: int) -> RuntimeError:
        """As in c10/xpu/XPUCachingAllocator.cpp."""
        import torch

        used, reserved = memory.counts.used, memory.counts.reserved
        return torch.OutOfMemoryError(
            f"XPU out of memory. Tried to allocate {in_units(size)}. GPU {memory.index} has a "
            f"total capacity of {in_units(memory.size)} of which "
            f"{in_units(memory.size - reserved)} is free. {allowed(memory)}Of the allocated "
            f"memory {in_units(used)} is allocated by PyTorch, and {in_units(reserved - used)} is "
            "reserved by PyTorch but unallocated. Please use `empty_cache` to release all "
            "unoccupied cached memory."
        )

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        """As in c10/xpu/XPUFunctions.h."""
        return RuntimeError(
            f"The device index is out of range. It must be in [0, {count}), but got {index}."
        )
