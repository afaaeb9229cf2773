"""Streams and events of `torch.cuda`."""

import ctypes
from functools import partial
from types import ModuleType
from typing import Any

import torch

from cudasim.backends.accelerator import refuse
from cudasim.backends.streams import (
    GREATEST_PRIORITY,
    LEAST_PRIORITY,
    Event,
    Stream,
    stream_data,
)
from cudasim.device.types import cuda as runtime
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.torch_private import devices as private


class CudaEvent(Event):
    _place = "device"  # ATen/cuda/CUDAEvent.h

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> "CudaEvent":
        """An event that is yet to be recorded.

        `blocking` makes no difference here, and `interprocess` only beside
        `enable_timing`.
        """
        self = super().__new__(cls, enable_timing=enable_timing)
        self.device = None  # until it is recorded
        self._external = external
        self._interprocess = interprocess
        return self

    def record(self, stream: Any = None) -> None:
        """Record the event.

        CUDA creates it now (`createEvent` in ATen/cuda/CUDAEvent.h), and refuses one with
        times for other processes (`cudaEventCreateWithFlags`).
        """
        if self._interprocess and self._timed and not self.event_id:
            raise runtime.runtime_error(runtime.INVALID_VALUE)
        super().record(stream)

    @property
    def cuda_event(self) -> int:
        return self.event_id

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.event_id)

    def __repr__(self) -> str:
        address = hex(self.event_id) if self.event_id else "uninitialized"
        return f"<torch.cuda.Event {address}>"


class CudaStream(Stream):
    event_type = CudaEvent

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> "CudaStream":
        if "stream_ptr" in ids:
            index = session.current().index
            ids = {"stream_id": ids["stream_ptr"], "device_index": index}
        if not ids and device is not None:  # refuses the CPU, in torch's words
            device = private.read_device_index(device, optional=True)
        return super().__new__(cls, device, priority=priority, **ids)

    @property
    def cuda_stream(self) -> int:
        return self.native_handle

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.native_handle)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return LEAST_PRIORITY, GREATEST_PRIORITY

    @property
    def priority(self) -> int:
        if not self.stream_id & 1:  # not from a pool
            return 0
        return 1 - (self.stream_id >> 1 & 15)

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
        index = private.read_device_index(device, optional=True)
        return super().__new__(
            cls, stream_id=stream_ptr, device_index=session.gpu(index).index
        )


def patch_cuda_streams(patches: Patches) -> None:
    functions = {"getDefaultStream": lambda index: stream_data(index, 0)}
    patches.bind(private.CUDA, functions)
    stand_in(patches, CudaStream, "Stream", torch.cuda.streams)
    stand_in(patches, ExternalStream, "ExternalStream", torch.cuda.streams)
    stand_in(patches, CudaEvent, "Event", torch.cuda.streams)
    patches.replace(*private.COPYING_STREAMS, None)


def stand_in(patches: Patches, kind: type, name: str, module: ModuleType) -> None:
    """Let `kind` stand in for a class of `torch.cuda`, or of another `module`.

    Where that was imported already, it makes objects of `kind`. Public methods that `kind`
    does not have are refused.
    """
    original = getattr(module, name)
    for method, value in vars(original).items():
        if not method.startswith("_") and not hasattr(kind, method) and callable(value):
            message = f"cudasim does not know {name}.{method}"
            setattr(kind, method, partial(refuse, message))  # which binds no object

    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(kind, attribute, getattr(original, attribute))

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        return kind(*args, **kwargs)

    patches.replace(original, "__new__", staticmethod(make))
    patches.replace(module, name, kind)
    if module.__name__.startswith(torch.cuda.__name__):
        patches.replace(torch.cuda, name, kind)
