"""Constructors of sparse and nested tensors, whose parts are tensors of their own."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import Patches

# Of each constructor, its parts; the last are the values, whose device is that of the whole.
PARTS = {
    "sparse_coo_tensor": ("indices", "values"),
    "sparse_compressed_tensor": ("compressed_indices", "plain_indices", "values"),
    "sparse_csr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_csc_tensor": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr_tensor": ("crow_indices", "col_indices", "values"),
    "sparse_bsc_tensor": ("ccol_indices", "row_indices", "values"),
}


def patch_sparse(patches: Patches) -> None:
    """Make the constructors of sparse and nested tensors accept simulated GPUs."""
    for name, parts in PARTS.items():
        patches.replace(torch, name, make_sparse(getattr(torch, name), parts))
    nested = torch.nested
    patches.replace(nested, "nested_tensor", make_nested(nested.nested_tensor, detached=True))
    patches.replace(
        nested, "as_nested_tensor", make_nested(nested.as_nested_tensor, detached=False)
    )


def make_sparse(original: Callable, parts: tuple[str, ...]) -> Callable:
    """A constructor that moves each of the `parts` to the device of the whole."""

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Tensor:
        given = {**dict(zip(parts, args, strict=False)), **_only(kwargs, parts)}
        if len(given) < len(parts):  # an empty one, by its size alone
            return original(*args, **kwargs)
        device, values = kwargs.get("device"), given["values"]
        if device is not None:
            home = resolve(device)
        else:
            _refuse_several(parts, given)
            home = gpu_of(values) if isinstance(values, Tensor) else None
        on_gpu = any(isinstance(part, Tensor) and gpu_of(part) for part in given.values())
        if not isinstance(home, GPU) and not (home is None and on_gpu):
            return original(*args, **kwargs)
        where = home.device if home else torch.device("cpu")
        moved = {name: torch.as_tensor(part, device=where) for name, part in given.items()}
        others = {key: kwargs[key] for key in kwargs if key not in (*parts, "device")}
        return original(*moved.values(), *args[len(parts) :], **others)

    return make


def _refuse_several(parts: tuple[str, ...], given: dict[str, Any]) -> None:
    """Raise RuntimeError for parts that are tensors on several devices: none is moved.

    In the words of the dispatcher for COO, of aten/src/ATen/native/sparse/SparseCsrTensor.cpp else.
    """
    tensors = {name: given[name] for name in parts if isinstance(given[name], Tensor)}
    home = tensors.get("values", next(iter(tensors.values()), None))
    for name, tensor in tensors.items():
        here, there = device_of(tensor), device_of(home)
        if here == there:
            continue
        if parts[0] == "indices":
            first, second = sorted((here, there), key=lambda device: device.type == "cpu")
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first} and {second}!"
            )
        raise RuntimeError(f"device of {name} (={here}) must match device of values (={there})")


def make_nested(original: Callable, detached: bool) -> Callable:
    """A constructor of nested tensors; `detached` ones are copies that record nothing."""

    @functools.wraps(original)
    def make(tensors: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        home = None if device is None else resolve(device)
        if not isinstance(home, GPU):
            return original(tensors, *args, device=device, **kwargs)
        if isinstance(tensors, Tensor):
            moved = tensors.to(home.device)
        else:
            moved = [torch.as_tensor(part, device=home.device) for part in tensors]
            moved = [part.detach() for part in moved] if detached else moved
        return original(moved, *args, **kwargs)

    return make


def _only(kwargs: dict, names: tuple[str, ...]) -> dict:
    return {name: kwargs[name] for name in names if name in kwargs}
