"""Streams and events of `torch.cuda`."""

import ctypes
from types import ModuleType
from typing import Any

import torch

from cudasim.backends.streams import PRIORITIES, Event, Stream, stream_data
from cudasim.patching import Patches
from cudasim.session import session


class CudaEvent(Event):
    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> "CudaEvent":
        """An event that is yet to be recorded; the other flags make no difference here."""
        self = super().__new__(cls, enable_timing=enable_timing)
        self.device = None  # until it is recorded
        return self

    cuda_event = property(lambda self: self.event_id)
    _as_parameter_ = property(lambda self: ctypes.c_void_p(self.event_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {hex(self.event_id) if self.event_id else 'uninitialized'}>"


class CudaStream(Stream):
    event_type = CudaEvent

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> "CudaStream":
        if "stream_ptr" in ids:
            ids = {
                "stream_id": ids["stream_ptr"],
                "device_index": session.current().index,
            }
        if not ids and device is not None:  # refuses the CPU, in torch's words
            device = torch.cuda._utils._get_device_index(device, optional=True)
        return super().__new__(cls, device, priority=priority, **ids)

    cuda_stream = property(lambda self: self.native_handle)
    _as_parameter_ = property(lambda self: ctypes.c_void_p(self.native_handle))
    priority_range = staticmethod(lambda: PRIORITIES)

    @property
    def priority(self) -> int:
        return 1 - (self.stream_id >> 1 & 15) if self.stream_id & 1 else 0

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.native_handle, self.device))

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol, address)."""
        return 0, self.cuda_stream


class ExternalStream(CudaStream):
    """`torch.cuda.ExternalStream`: a stream that another library made, by its address."""

    def __new__(
        cls, stream_ptr: int, device: Any = None, **ids: int
    ) -> "ExternalStream":
        index = torch.cuda._utils._get_device_index(device, optional=True)
        return super().__new__(
            cls, stream_id=stream_ptr, device_index=session.gpu(index).index
        )


def patch_cuda_streams(patches: Patches) -> None:
    patches.replace(
        torch._C, "_cuda_getDefaultStream", lambda index: stream_data(index, 0)
    )
    for kind in (CudaStream, ExternalStream, CudaEvent):
        stand_in(patches, kind, kind.__name__.removeprefix("Cuda"), torch.cuda.streams)
    patches.replace(torch.nn.parallel._functions, "_streams", None)


def stand_in(patches: Patches, kind: type, name: str, module: ModuleType) -> None:
    """Let `kind` stand in for a class, which makes objects of it where it was imported already."""
    theirs = getattr(module, name)
    for own in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(kind, own, getattr(theirs, own))
    made = staticmethod(lambda cls, *args, **kwargs: kind(*args, **kwargs))
    patches.replace(theirs, "__new__", made)
    for owner in (module, torch.cuda):
        patches.replace(owner, name, kind)
