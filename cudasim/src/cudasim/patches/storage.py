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
from cudasim.patches.replacing import Replacements
from cudasim.patching import Patches

METHODS = Replacements()

_device = UntypedStorage.device


def patch_storage(patches: Patches) -> None:
    """Make storages support simulated GPUs; `TypedStorage` uses the untyped one that it wraps."""
    METHODS.install(patches)
    patches.replace(UntypedStorage, "device", property(device))
    setattr(UntypedStorage, TAG, None)  # that of those on the CPU
    patches.finally_do(lambda: delattr(UntypedStorage, TAG))


def device(self: UntypedStorage) -> torch.device:
    """`UntypedStorage.device`."""
    gpu = gpu_of_storage(self)
    return _device.__get__(self) if gpu is None else gpu.device


@METHODS(UntypedStorage, "__new__")
def new(original: Callable, cls: type, *args: Any, **kwargs: Any) -> UntypedStorage:
    """`torch.UntypedStorage(size, device=...)`."""
    gpu = resolve(kwargs["device"]) if kwargs.get("device") is not None else None
    if not isinstance(gpu, GPU):
        return original(cls, *args, **kwargs)
    size = args[0] if args else kwargs.get("size")
    memory = Allocation(gpu, size) if type(size) is int and size > 0 else None
    made = original(cls, *args, **{**kwargs, "device": "cpu"})
    setattr(made, TAG, memory or Allocation(gpu, made.nbytes()))
    return made


@METHODS(UntypedStorage, "__getitem__")
def getitem(original: Callable, self: UntypedStorage, *args: Any, **kwargs: Any) -> Any:
    """`storage[2:6]` shares the memory of `storage`, and so its place on the GPU."""
    found = original(self, *args, **kwargs)
    if isinstance(found, UntypedStorage) and gpu_of_storage(self) is not None:
        setattr(found, TAG, getattr(self, TAG))  # the bytes are free when both are gone
    return found


@METHODS(UntypedStorage, "to")
def to(
    original: Callable, self: UntypedStorage, *, device: Any, non_blocking: bool = False
) -> UntypedStorage:
    """`UntypedStorage.to`, and with it `cuda`: a copy on another device."""
    gpu = resolve(device)
    if gpu is ELSEWHERE:
        return original(self, device=device, non_blocking=non_blocking)
    if gpu is None:
        return self.cpu()
    # As torch compares them: `cuda` is not `cuda:0`, so storage.cuda() always copies.
    if self.device == (device if isinstance(device, torch.device) else torch.device(device)):
        return self
    return UntypedStorage(self.nbytes(), device=gpu.device).copy_(self, non_blocking)


@METHODS(UntypedStorage, "resize_")
def resize(original: Callable, self: UntypedStorage, size: int) -> UntypedStorage:
    """`UntypedStorage.resize_`: the bytes on the GPU are counted again."""
    foretell(self, size)
    try:
        return original(self, size)
    finally:
        recount(self)
