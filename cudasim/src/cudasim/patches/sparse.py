"""Constructors of sparse and nested tensors, whose parts are tensors of their own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.pinning import mark_pinned
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import CPU, device_of, gpu_of
from cudasim.patches.functional import require_same_device
from cudasim.patching import replaces
from cudasim.words import WORDS

MESSAGES = WORDS["devices"]
# The parts of each constructor. The last are the values, whose device is the whole's.
PARTS = TABLES["sparse"]


@replaces(torch, *PARTS)
def make_sparse(original: Callable, *args, **kwargs) -> Tensor:
    if kwargs.pop("pin_memory", False):
        return mark_pinned(make_sparse(original, *args, **kwargs).clone())

    names = PARTS[original.__name__]
    parts = dict(zip(names, args, strict=False))
    for name in names:
        if name in kwargs:
            parts[name] = kwargs[name]
    if len(parts) < len(names):  # an empty one, by its size alone
        return original(*args, **kwargs)

    tensors = {name: part for name, part in parts.items() if isinstance(part, Tensor)}
    device = kwargs.get("device")
    if device is not None:
        home = resolve(device)
    else:
        home = gpu_of(tensors["values"]) if "values" in tensors else None
        if tensors:  # none is moved
            refuse_apart(tensors)

    uses_gpu = any(map(gpu_of, tensors.values()))
    if not isinstance(home, GPU) and (home is not None or not uses_gpu):
        return original(*args, **kwargs)
    where = home.device if home else CPU
    moved = [torch.as_tensor(part, device=where) for part in parts.values()]
    named = ("device", *names)
    others = {name: value for name, value in kwargs.items() if name not in named}
    return original(*moved, *args[len(names) :], **others)


def refuse_apart(tensors: dict[str, Tensor]) -> None:
    """Raise RuntimeError for parts on several devices.

    For COO they are those of the dispatcher's wrapper for CUDA, or those of the CPU's
    kernels, which copy indices; for the others of native/sparse/SparseCsrTensor.cpp.
    """
    first = next(iter(tensors.values()))
    if "indices" not in tensors:
        message = MESSAGES["compressed parts"]
    elif device_of(tensors.get("values", first)) != CPU:
        message = MESSAGES["parts"]
    else:
        message = MESSAGES["swapped parts"]
    require_same_device(tensors.get("values", first), tensors.items(), message)


@replaces(torch.nested, "nested_tensor", "as_nested_tensor")
def make_nested(
    original: Callable, tensors: Any, *args, device: Any = None, **kwargs
) -> Tensor:
    """Make a nested tensor; that of `nested_tensor` is a copy that records nothing."""
    if kwargs.pop("pin_memory", False):
        nested = make_nested(original, tensors, *args, device=device, **kwargs)
        return nested.pin_memory()
    home = resolve(device)
    if not isinstance(home, GPU):
        return original(tensors, *args, device=device, **kwargs)
    if isinstance(tensors, Tensor):
        return original(tensors.to(home.device), *args, **kwargs)
    moved = [torch.as_tensor(part, device=home.device) for part in tensors]
    if original.__name__ == "nested_tensor":
        moved = [part.detach() for part in moved]
    return original(moved, *args, **kwargs)
