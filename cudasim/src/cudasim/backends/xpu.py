"""`torch.xpu`: what it has and other types of GPU have not."""

import torch

from cudasim.backends.accelerator import patch_module, refuse, refuse_graphs
from cudasim.backends.memory import free_and_total
from cudasim.backends.streams import Event, ModuleEvent, ModuleStream, patch_module_streams
from cudasim.device.gpu import GPU
from cudasim.patches.sharing import refuse_sharing
from cudasim.patching import Patches

VECTOR_ENGINES = 8  # of one Xe-core of an Intel GPU Max


class XpuProperties:
    """What `torch.xpu.get_device_properties` returns, with XPU's names and print.

    `total_memory` is in bytes. Properties of the driver, and those that the card's data sheet
    does not tell, are not there.
    """

    def __init__(self, gpu: GPU) -> None:
        """The properties of `gpu`."""
        self.name = gpu.name
        self.type, self.platform_name, self.vendor = "gpu", "cudasim", "cudasim"
        self.uuid = gpu.uuid
        self.total_memory = gpu.card.memory
        self.gpu_subslice_count = gpu.card.processors
        self.max_compute_units = self.gpu_eu_count = gpu.card.processors * VECTOR_ENGINES
        self.has_fp16 = self.has_fp64 = self.has_atomic64 = True
        self.has_bfloat16_conversions = self.has_subgroup_matrix_multiply_accumulate = True
        self.is_integrated_gpu = False

    def __repr__(self) -> str:
        """As XPU's properties print, less those that are not there."""
        return (
            f"_XpuDeviceProperties(name='{self.name}', platform_name='{self.platform_name}', "
            f"type='{self.type}', uuid={self.uuid}, total_memory={self.total_memory // 2**20}MB, "
            f"max_compute_units={self.max_compute_units}, gpu_eu_count={self.gpu_eu_count}, "
            f"gpu_subslice_count={self.gpu_subslice_count}, has_fp16={self.has_fp16:d}, "
            f"has_fp64={self.has_fp64:d}, has_atomic64={self.has_atomic64:d})"
        )


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
    """Make `torch.xpu` report the simulated GPUs."""
    patch_module(patches, XpuProperties)
    patch_module_streams(patches, {"Stream": XpuStream, "Event": XpuEvent})
    refuse_graphs(patches, "XPUGraph")
    refuse_sharing(patches)
    for name, function in BINDINGS.items():
        patches.replace(torch._C, name, function)
