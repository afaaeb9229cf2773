"""Pinned memory: host memory that a GPU can copy from by itself.

Here it is ordinary memory with a mark, which hangs on the storage as a tag does, so that
views are pinned too.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from cudasim.dispatch.tags import PINNED, gpu_of, storage_of
from cudasim.patching import Patches
from cudasim.session import session


def patch_pinning(patches: Patches) -> None:
    """Make `pin_memory` and `is_pinned` work without a GPU."""
    patches.replace(Tensor, "pin_memory", pin_memory)
    patches.replace(Tensor, "is_pinned", is_pinned)


def pinned(tensor: Tensor) -> Tensor:
    """Mark `tensor`, whose storage is new, as pinned; returns it.

    Raises RuntimeError if it is on a GPU.
    """
    if gpu_of(tensor) is not None:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    setattr(storage_of(tensor), PINNED, True)
    return tensor


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """`Tensor.pin_memory`: a copy in pinned memory, itself if it is there already.

    Raises RuntimeError, with torch's words, for a tensor on a GPU or one that is sparse.
    """
    if has_torch_function_unary(self):
        return handle_torch_function(pin_memory, (self,), self, device)
    if is_pinned(self):
        return self
    if gpu_of(self) is not None or self.layout is not torch.strided:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    return pinned(self.clone())


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """`Tensor.is_pinned`: True for a tensor in pinned memory."""
    if has_torch_function_unary(self):
        return handle_torch_function(is_pinned, (self,), self, device)
    if self.layout is not torch.strided:
        return False
    storage = storage_of(self)
    return getattr(storage, PINNED, False) or (
        bool(session.registered) and storage.data_ptr() in session.registered
    )
