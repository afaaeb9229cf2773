"""Streams and events of `torch.cuda`."""

from typing import Any

import torch

from cudasim.backends.streams import (
    Event,
    ModuleEvent,
    ModuleStream,
    patch_module_streams,
    stream_data,
)
from cudasim.patching import Patches
from cudasim.session import session


class CudaStream(ModuleStream):
    """`torch.cuda.Stream` on a simulated GPU."""

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> "CudaStream":
        """A stream from the pool of `device`, or that which `ids` name."""
        if "stream_ptr" in ids:
            ids = {"stream_id": ids["stream_ptr"], "device_index": session.current().index}
        return super().__new__(cls, device, priority=priority, **ids)

    @property
    def cuda_stream(self) -> int:
        """What stands for the address of the stream: 0 for the default one."""
        return self.native_handle

    def record_event(self, event: Event | None = None) -> Event:
        """Record `event`, or a new `torch.cuda.Event`, here; returns it."""
        return super().record_event(CudaEvent() if event is None else event)

    def __repr__(self) -> str:
        """As CUDA's streams print."""
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol, address)."""
        return 0, self.cuda_stream


class ExternalStream(CudaStream):
    """`torch.cuda.ExternalStream`: a stream that another library made, by its address."""

    def __new__(cls, stream_ptr: int, device: Any = None, **ids: int) -> "ExternalStream":
        """The stream at `stream_ptr` on `device`."""
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return super().__new__(cls, stream_id=stream_ptr, device_index=session.gpu(index).index)


class CudaEvent(ModuleEvent):
    """`torch.cuda.Event` on a simulated GPU."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> "CudaEvent":
        """An event that is yet to be recorded."""
        return super().__new__(cls, enable_timing)

    @property
    def device(self) -> torch.device | None:
        """The GPU of the stream on which it was recorded; None before."""
        return super().device if self.cuda_event else None

    @property
    def cuda_event(self) -> int:
        """What stands for the address of the event: 0 until it is recorded."""
        return self.event_id

    def __repr__(self) -> str:
        """As CUDA's events print."""
        if self.cuda_event:
            return f"<torch.cuda.Event {self.cuda_event:#x}>"
        return "<torch.cuda.Event uninitialized>"


def patch_cuda_streams(patches: Patches) -> None:
    """Replace the streams and events of `torch.cuda`."""
    patches.replace(torch._C, "_cuda_getDefaultStream", lambda index: stream_data(index, 0))
    mine = {"Stream": CudaStream, "ExternalStream": ExternalStream, "Event": CudaEvent}
    patch_module_streams(patches, mine)
    patches.replace(torch.nn.parallel._functions, "_streams", None)
