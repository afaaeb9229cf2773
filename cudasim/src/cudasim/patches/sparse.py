"""Constructors of sparse and nested tensors, whose parts are tensors of their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import CPU, device_of, gpu_of
from cudasim.patches.functional import together
from cudasim.patching import replaces

# Of each constructor, its parts; the last are the values, whose device is that of the whole.
PARTS = TABLES["sparse"]


@replaces(torch, *PARTS)
def make_sparse(original: Callable, *args, **kwargs) -> Tensor:
    parts = PARTS[original.__name__]
    given = dict(zip(parts, args, strict=False))
    given |= {name: kwargs[name] for name in parts if name in kwargs}
    if len(given) < len(parts):  # an empty one, by its size alone
        return original(*args, **kwargs)
    tensors = {name: part for name, part in given.items() if isinstance(part, Tensor)}
    home = gpu_of(tensors["values"]) if "values" in tensors else None
    if kwargs.get("device") is not None:
        home = resolve(kwargs["device"])
    elif tensors:  # none is moved
        refuse_apart(tensors)
    if not isinstance(home, GPU) and (
        home is not None or not any(map(gpu_of, tensors.values()))
    ):
        return original(*args, **kwargs)
    where = home.device if home else CPU
    moved = [torch.as_tensor(part, device=where) for part in given.values()]
    others = {key: kwargs[key] for key in kwargs if key not in (*parts, "device")}
    return original(*moved, *args[len(parts) :], **others)


def refuse_apart(tensors: dict[str, Tensor]) -> None:
    """Raise RuntimeError for parts on several devices, in the dispatcher's words for COO, and for
    others in those of aten/src/ATen/native/sparse/SparseCsrTensor.cpp."""
    words = "device of {name} (={there}) must match device of values (={here})"
    if "indices" in tensors:
        on_host = device_of(tensors["indices"]) == CPU
        words = "Expected all tensors to be on the same device, but found at least two devices, "
        words += "{here} and {there}!" if on_host else "{there} and {here}!"
    together(
        tensors.get("values", next(iter(tensors.values()))), tensors.items(), words
    )


@replaces(torch.nested, "nested_tensor", "as_nested_tensor")
def make_nested(
    original: Callable, tensors: Any, *args, device: Any = None, **kwargs
) -> Tensor:
    """A constructor of nested tensors; those of `nested_tensor` are copies that record nothing."""
    home = resolve(device)
    if not isinstance(home, GPU):
        return original(tensors, *args, device=device, **kwargs)
    if isinstance(tensors, Tensor):
        return original(tensors.to(home.device), *args, **kwargs)
    moved = [torch.as_tensor(part, device=home.device) for part in tensors]
    if original.__name__ == "nested_tensor":
        moved = [part.detach() for part in moved]
    return original(moved, *args, **kwargs)
