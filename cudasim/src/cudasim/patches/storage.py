"""Storages on simulated GPUs: where they say they are, how they are made, moved and resized.

`torch.save` reads the device of a storage and `torch.load` moves storages with `to`. So the
files that a simulation writes name `cuda:0` as those of a machine with GPUs do, and loading
them is torch's own code from end to end.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import UntypedStorage

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.devices import ELSEWHERE, resolve
from cudasim.dispatch.tags import TAG, foretell, gpu_of_storage, recount
from cudasim.patching import Patches


def patch_storage(patches: Patches) -> None:
    """Make storages support simulated GPUs; `TypedStorage` uses the untyped one that it wraps."""
    patches.replace(UntypedStorage, "__new__", make_new(UntypedStorage.__new__))
    patches.replace(UntypedStorage, "__getitem__", make_getitem(UntypedStorage.__getitem__))
    patches.replace(UntypedStorage, "to", make_to(UntypedStorage.to))
    patches.replace(UntypedStorage, "resize_", make_resize(UntypedStorage.resize_))
    patches.replace(UntypedStorage, "device", make_device(UntypedStorage.device))


def place_storage(storage: UntypedStorage, gpu: GPU) -> UntypedStorage:
    """Tag a new `storage` as living on `gpu`, and count its bytes there; returns it."""
    setattr(storage, TAG, Allocation(gpu, storage.nbytes()))
    return storage


def make_device(original: Any) -> property:
    """`UntypedStorage.device`."""

    def device(self: UntypedStorage) -> torch.device:
        gpu = gpu_of_storage(self)
        return original.__get__(self) if gpu is None else gpu.device

    return property(device)


def make_new(original: Callable) -> Callable:
    """`torch.UntypedStorage(size, device=...)`."""

    def new(cls: type, *args: Any, **kwargs: Any) -> UntypedStorage:
        device = kwargs.get("device")
        gpu = None if device is None else resolve(device)
        if not isinstance(gpu, GPU):
            return original(cls, *args, **kwargs)
        size = args[0] if args else kwargs.get("size")
        memory = Allocation(gpu, size) if type(size) is int and size > 0 else None
        made = original(cls, *args, **{**kwargs, "device": "cpu"})
        if memory is None:
            return place_storage(made, gpu)
        setattr(made, TAG, memory)
        return made

    return new


def make_getitem(original: Callable) -> Callable:
    """`storage[2:6]` shares the memory of `storage`, and so its place on the GPU."""

    def getitem(self: UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        if isinstance(found, UntypedStorage) and gpu_of_storage(self) is not None:
            setattr(found, TAG, getattr(self, TAG))  # the bytes are free when both are gone
        return found

    return getitem


def make_to(original: Callable) -> Callable:
    """`UntypedStorage.to`, and with it `cuda`: a copy on another device."""

    def to(self: UntypedStorage, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        gpu = resolve(device)
        if gpu is ELSEWHERE:
            return original(self, device=device, non_blocking=non_blocking)
        if gpu is None:
            return self.cpu()
        # As torch compares them: `cuda` is not `cuda:0`, so storage.cuda() always copies.
        if self.device == (device if isinstance(device, torch.device) else torch.device(device)):
            return self
        return UntypedStorage(self.nbytes(), device=gpu.device).copy_(self, non_blocking)

    return to


def make_resize(original: Callable) -> Callable:
    """`UntypedStorage.resize_`: the bytes on the GPU are counted again."""

    def resize(self: UntypedStorage, size: int) -> UntypedStorage:
        foretell(self, size)
        try:
            return original(self, size)
        finally:
            recount(self)

    return resize
