"""Pinned memory: ordinary memory with a mark, on the storage, so that views are pinned too."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.tags import PINNED, gpu_of, storage_of
from cudasim.patches.replacing import replaces
from cudasim.session import session


def pinned(tensor: Tensor) -> Tensor:
    """Mark `tensor`, whose storage is new. Raises RuntimeError if it is on a GPU."""
    if gpu_of(tensor) is not None:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    setattr(storage_of(tensor), PINNED, True)
    return tensor


@replaces(Tensor, "pin_memory", overridable=True)
def pin_memory(original: Callable, self: Tensor, device: Any = None) -> Tensor:
    if self.is_pinned():
        return self
    if gpu_of(self) is not None or self.layout is not torch.strided:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    return pinned(self.clone())


@replaces(Tensor, "is_pinned", overridable=True)
def is_pinned(original: Callable, self: Tensor, device: Any = None) -> bool:
    if self.layout is not torch.strided:
        return False
    storage = storage_of(self)
    return getattr(storage, PINNED, False) or (
        bool(session.registered) and storage.data_ptr() in session.registered
    )
