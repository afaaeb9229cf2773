"""Storages on simulated GPUs, and pinned ones.

`torch.save` and `torch.load` write and read the names of their devices. Pinned memory is
ordinary memory of the host with a mark on its storage, so that views are pinned too.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import tags
from cudasim.dispatch.devices import ELSEWHERE, resolve
from cudasim.dispatch.mode import is_wrapper
from cudasim.dispatch.pinning import is_pinned, pinned_copy, warn_of_device
from cudasim.patching import replaces

_device = UntypedStorage.device


def device_of(self: UntypedStorage) -> torch.device:
    """Stand for `UntypedStorage.device`, which `TypedStorage` reads, too."""
    gpu = tags.gpu_of_storage(self)
    return _device.__get__(self) if gpu is None else gpu.device


@replaces(UntypedStorage, "__new__")
def new(original: Callable, cls: type, *args, **kwargs) -> UntypedStorage:
    gpu = resolve(kwargs.get("device"))
    if not isinstance(gpu, GPU):
        return original(cls, *args, **kwargs)

    # Memory is taken first where the size is known: the card may not have it.
    size = args[0] if args else kwargs.get("size")
    allocation = None
    if type(size) is int and size > 0:
        allocation = Allocation(gpu, size)
    storage = original(cls, *args, **{**kwargs, "device": "cpu"})
    if allocation is None:
        allocation = Allocation(gpu, storage.nbytes())
    setattr(storage, tags.TAG, allocation)
    return storage


@replaces(UntypedStorage, "__getitem__")
def getitem(original: Callable, self: UntypedStorage, *args, **kwargs) -> Any:
    """Let `storage[2:6]`, which shares the memory of `storage`, be in its place, too."""
    found = original(self, *args, **kwargs)
    if isinstance(found, UntypedStorage) and tags.gpu_of_storage(self) is not None:
        # The bytes are free when both are gone.
        setattr(found, tags.TAG, getattr(self, tags.TAG))
    return found


@replaces(UntypedStorage, "to")
def to(
    original: Callable, self: UntypedStorage, *, device: Any, non_blocking: bool = False
) -> UntypedStorage:
    gpu = resolve(device)
    if gpu is ELSEWHERE:
        return original(self, device=device, non_blocking=non_blocking)
    if gpu is None:
        return self.cpu()
    # As torch compares them: `cuda` is not `cuda:0`, so storage.cuda() always copies.
    if not isinstance(device, torch.device):
        device = torch.device(device)
    if self.device == device:
        return self
    return UntypedStorage(self.nbytes(), device=gpu.device).copy_(self, non_blocking)


@replaces(UntypedStorage, "resize_")
def resize(original: Callable, self: UntypedStorage, size: int) -> UntypedStorage:
    tags.foretell(self, size)
    try:
        return original(self, size)
    finally:
        tags.recount(self)


@replaces(Tensor, "pin_memory", overridable=True)
def pin_memory(original: Callable, self: Tensor, device: Any = None) -> Tensor:
    if is_wrapper(self):  # it pins what it wraps
        return original(self, device)
    if device is not None:
        warn_of_device("pin_memory")
        warn_of_device("is_pinned")  # it asks that first
    return self if is_pinned(self) else pinned_copy(self)


@replaces(Tensor, "is_pinned", overridable=True)
def tell_is_pinned(original: Callable, self: Tensor, device: Any = None) -> bool:
    if is_wrapper(self):
        return original(self, device)
    if device is not None:
        warn_of_device("is_pinned")
    return is_pinned(self)
