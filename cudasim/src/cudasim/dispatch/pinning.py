"""Pinned tensors of every layout: those whose values are in pinned memory.

The rules are those of ATen/native/Memory.cpp, and for the parts of sparse tensors of
SparseTensor.cpp and SparseCsrTensor.cpp in ATen/native/sparse.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from cudasim.dispatch.host_memory import PINNED, pin_storage
from cudasim.dispatch.operators import rule
from cudasim.dispatch.tags import gpu_of, indices_of, storage_of
from cudasim.notices import warn_program
from cudasim.session import session
from cudasim.torch_private import operators as private
from cudasim.words import WORDS

aten = torch.ops.aten
MESSAGES = WORDS["pinning"]
# Where Memory.cpp of PyTorch 2.13 warns.
LINES = {"is_pinned": 31, "pin_memory": 46}


def is_pinned(tensor: Tensor) -> bool:
    """Tell whether a tensor is pinned. The values of a sparse one decide."""
    storage = storage_of(tensor)
    if storage is None:
        return False
    if hasattr(storage, PINNED):
        return not storage.is_shared()  # shared memory is other memory
    # Memory that the program has pinned itself, by `cudaHostRegister`.
    registered = session.registered_sizes
    return bool(registered) and storage.data_ptr() in registered


def mark_pinned(tensor: Tensor) -> Tensor:
    """Mark the memory of all parts of `tensor` as pinned; return it."""
    if gpu_of(tensor) is not None:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    for part in (tensor, *indices_of(tensor)):
        pin_storage(storage_of(part))
    return tensor


def pinned_copy(tensor: Tensor) -> Tensor:
    """Return a copy of `tensor` in pinned memory. Raises PyTorch's error for a GPU's."""
    if gpu_of(tensor) is not None:
        raise RuntimeError(WORDS["copies"]["not pinned"].format(tensor.type()))
    return mark_pinned(tensor.clone())


def warn_of_device(name: str) -> None:
    """Warn, as Memory.cpp does, that a program need not name the device to pin for."""
    warn_program(MESSAGES["device"].format(name, LINES[name]), DeprecationWarning)


@rule(aten.is_pinned.default)
def answer_is_pinned(func: Callable, args: tuple, kwargs: dict) -> bool:
    return is_pinned(args[0])


@rule(private.pin_memory)
def run_pin_memory(func: Callable, args: tuple, kwargs: dict) -> Tensor:
    return pinned_copy(args[0])
