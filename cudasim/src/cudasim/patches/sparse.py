"""Constructors of sparse and nested tensors, whose parts are tensors of their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.tags import CPU, device_of, gpu_of
from cudasim.patches.replacing import replaces

# Of each constructor, its parts; the last are the values, whose device is that of the whole.
PARTS = {
    "sparse_coo_tensor": ("indices", "values"),
    "sparse_compressed_tensor": ("compressed_indices", "plain_indices", "values"),
    "sparse_csr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_csc_tensor": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_bsc_tensor": ("ccol_indices", "row_indices", "values"),
}


@replaces(torch, *PARTS)
def make_sparse(original: Callable, *args, **kwargs) -> Tensor:
    """A constructor that moves each of its parts to the device of the whole."""
    parts = PARTS[original.__name__]
    given = dict(zip(parts, args, strict=False))
    given |= {name: kwargs[name] for name in parts if name in kwargs}
    if len(given) < len(parts):  # an empty one, by its size alone
        return original(*args, **kwargs)
    device = kwargs.get("device")
    if device is not None:
        home = resolve(device)
    else:
        home = _home_of({name: part for name, part in given.items() if isinstance(part, Tensor)})
    on_gpu = any(isinstance(part, Tensor) and gpu_of(part) for part in given.values())
    if not isinstance(home, GPU) and not (home is None and on_gpu):
        return original(*args, **kwargs)
    where = home.device if home else CPU
    moved = [torch.as_tensor(part, device=where) for part in given.values()]
    others = {key: kwargs[key] for key in kwargs if key not in (*parts, "device")}
    return original(*moved, *args[len(parts) :], **others)


def _home_of(tensors: dict[str, Tensor]) -> GPU | None:
    """The GPU of the values. Raises RuntimeError for `tensors` on several devices: none is moved.

    In the words of the dispatcher for COO, of aten/src/ATen/native/sparse/SparseCsrTensor.cpp else.
    """
    if not tensors:
        return None
    there = device_of(tensors.get("values", next(iter(tensors.values()))))
    for name, tensor in tensors.items():
        here = device_of(tensor)
        if here != there and "indices" in tensors:
            first, second = sorted((here, there), key=lambda device: device.type == "cpu")
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first} and {second}!"
            )
        if here != there:
            raise RuntimeError(f"device of {name} (={here}) must match device of values (={there})")
    return gpu_of(tensors["values"]) if "values" in tensors else None


@replaces(torch.nested, "nested_tensor", "as_nested_tensor")
def make_nested(original: Callable, tensors: Any, *args, device: Any = None, **kwargs) -> Tensor:
    """A constructor of nested tensors; those of `nested_tensor` are copies that record nothing."""
    home = None if device is None else resolve(device)
    if not isinstance(home, GPU):
        return original(tensors, *args, device=device, **kwargs)
    if isinstance(tensors, Tensor):
        return original(tensors.to(home.device), *args, **kwargs)
    moved = [torch.as_tensor(part, device=home.device) for part in tensors]
    if original.__name__ == "nested_tensor":
        moved = [part.detach() for part in moved]
    return original(moved, *args, **kwargs)
