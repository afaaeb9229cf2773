"""Storages on simulated GPUs, whose names `torch.save` and `torch.load` read and write; and pinned
ones, ordinary memory of the host with a mark on its storage, so that views are pinned too."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import tags
from cudasim.dispatch.devices import ELSEWHERE, resolve
from cudasim.patching import replaces
from cudasim.session import session

_device = UntypedStorage.device


def device_of(self: UntypedStorage) -> torch.device:
    """`UntypedStorage.device`, which `TypedStorage` asks, too."""
    gpu = tags.gpu_of_storage(self)
    return _device.__get__(self) if gpu is None else gpu.device


@replaces(UntypedStorage, "__new__")
def new(original: Callable, cls: type, *args, **kwargs) -> UntypedStorage:
    gpu = resolve(kwargs.get("device"))
    if not isinstance(gpu, GPU):
        return original(cls, *args, **kwargs)
    size = args[0] if args else kwargs.get("size")
    memory = Allocation(gpu, size) if type(size) is int and size > 0 else None
    made = original(cls, *args, **{**kwargs, "device": "cpu"})
    setattr(made, tags.TAG, memory or Allocation(gpu, made.nbytes()))
    return made


@replaces(UntypedStorage, "__getitem__")
def getitem(original: Callable, self: UntypedStorage, *args, **kwargs) -> Any:
    """`storage[2:6]` shares the memory of `storage`, and so its place on the GPU."""
    found = original(self, *args, **kwargs)
    if isinstance(found, UntypedStorage) and tags.gpu_of_storage(self) is not None:
        setattr(
            found, tags.TAG, getattr(self, tags.TAG)
        )  # the bytes are free when both are gone
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
    if self.device == (
        device if isinstance(device, torch.device) else torch.device(device)
    ):
        return self
    return UntypedStorage(self.nbytes(), device=gpu.device).copy_(self, non_blocking)


@replaces(UntypedStorage, "resize_")
def resize(original: Callable, self: UntypedStorage, size: int) -> UntypedStorage:
    tags.foretell(self, size)
    try:
        return original(self, size)
    finally:
        tags.recount(self)


def pinned(tensor: Tensor) -> Tensor:
    if tags.gpu_of(tensor) is not None:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    setattr(tags.storage_of(tensor), tags.PINNED, True)
    return tensor


@replaces(Tensor, "pin_memory", overridable=True)
def pin_memory(original: Callable, self: Tensor, device: Any = None) -> Tensor:
    if self.is_pinned():
        return self
    if tags.gpu_of(self) is not None or self.layout is not torch.strided:
        raise RuntimeError(
            f"cannot pin '{self.type()}' only dense CPU tensors can be pinned"
        )
    return pinned(self.clone())


@replaces(Tensor, "is_pinned", overridable=True)
def is_pinned(original: Callable, self: Tensor, device: Any = None) -> bool:
    if self.layout is not torch.strided:
        return False
    storage, registered = tags.storage_of(self), session.registered
    marked = getattr(storage, tags.PINNED, False)
    return marked or (bool(registered) and storage.data_ptr() in registered)
