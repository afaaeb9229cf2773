"""`torch.xpu`: what it has and other types of GPU have not."""

import torch

from cudasim.backends.accelerator import free_and_total, patch_module, refuse, refuse_graphs
from cudasim.backends.properties import XpuProperties
from cudasim.backends.streams import Event, ModuleEvent, ModuleStream, patch_module_streams
from cudasim.patching import Patches


class XpuStream(ModuleStream):
    """`torch.xpu.Stream` on a simulated GPU."""

    PRIORITIES = (1, -1)  # c10/xpu/XPUStream.h

    @property
    def sycl_queue(self) -> int:
        """What stands for the address of the queue."""
        return self.native_handle

    def record_event(self, event: Event | None = None) -> Event:
        """Record `event`, or a new `torch.xpu.Event`, here; returns it."""
        return super().record_event(XpuEvent() if event is None else event)

    def __repr__(self) -> str:
        """As XPU's streams print."""
        return f"torch.xpu.Stream(device={self.device} sycl_queue={self.sycl_queue:#x})"


class XpuEvent(ModuleEvent):
    """`torch.xpu.Event` on a simulated GPU."""

    @property
    def sycl_event(self) -> int:
        """What stands for the address of the event: 0 until it is recorded."""
        return self.event_id

    def __repr__(self) -> str:
        """As XPU's events print."""
        if self.sycl_event:
            return f"torch.xpu.Event(sycl_event={self.sycl_event:#x})"
        return "torch.xpu.Event(uninitialized)"


BINDINGS = {
    "_xpu_getArchFlags": lambda: "",  # there is no compiled code, for any architecture
    "_xpu_getMemoryInfo": free_and_total,
    "_xpu_recordMemoryHistory": lambda *args, **kwargs: None,
    "_xpu_changeCurrentAllocator": refuse("cudasim: a simulated GPU has no allocators but its own"),
}


def patch_xpu(patches: Patches) -> None:
    """Let `torch.xpu` speak of the simulated GPUs."""
    patch_module(patches, XpuProperties)
    patch_module_streams(patches, {"Stream": XpuStream, "Event": XpuEvent})
    refuse_graphs(patches, "XPUGraph")
    for name, function in BINDINGS.items():
        patches.replace(torch._C, name, function)
