"""Callbacks of `torch.cuda._gpu_trace`, by which tools such as PyTorch's sanitizer follow a GPU."""

from typing import Any

import torch
import torch.cuda._gpu_trace as gpu_trace
from torch._utils import CallbackRegistry

from cudasim.session import session

EVENT_CREATION = gpu_trace.EventCreationCallbacks
EVENT_DELETION = gpu_trace.EventDeletionCallbacks
EVENT_RECORD = gpu_trace.EventRecordCallbacks
EVENT_WAIT = gpu_trace.EventWaitCallbacks
EVENT_SYNCHRONIZATION = gpu_trace.EventSynchronizationCallbacks
STREAM_CREATION = gpu_trace.StreamCreationCallbacks
STREAM_SYNCHRONIZATION = gpu_trace.StreamSynchronizationCallbacks
DEVICE_SYNCHRONIZATION = gpu_trace.DeviceSynchronizationCallbacks


def activate() -> None:
    """`torch._C._activate_gpu_trace`: call the callbacks from now on."""
    session.traced = True
    session.watch()


def fire(callbacks: CallbackRegistry, *args: Any) -> None:
    if session.traced:
        callbacks.fire_callbacks(*args)


class Followed(int):
    """The address of a storage's memory: it tells when that is free again."""

    def __del__(self) -> None:
        fire(gpu_trace.MemoryDeallocationCallbacks, int(self))


def follow(storage: torch.UntypedStorage) -> None:
    """Tell of the memory of a new `storage` on a GPU, and of its end."""
    if session.traced and storage.data_ptr():
        fire(gpu_trace.MemoryAllocationCallbacks, storage.data_ptr())
        storage._cudasim_followed = Followed(storage.data_ptr())
