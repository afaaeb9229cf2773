"""Optimizers group parameters by device and type before they step: each GPU has its own group."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cudasim.patches.replacing import replaces

COUNTS = (torch.float32, torch.float64)  # types that `step` may have, whatever the parameter's

Groups = dict[tuple[torch.device, torch.dtype], tuple[list[list[Tensor | None]], list[int]]]


@replaces(torch._C, "_group_tensors_by_device_and_dtype")
def group(
    original: Callable, lists: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> Groups:
    """Tensors of one position, by device and type of the first list's. Empty lists stay empty."""
    groups: Groups = {}
    for position, first in enumerate(lists[0]):
        key = first.device, first.dtype
        row = [tensors[position] if tensors else None for tensors in lists]
        for tensor in row[1:]:
            if tensor is not None and not _belongs(original, tensor, *key):
                raise RuntimeError(_refusal(original, torch.float32, torch.int64))
        columns, indices = groups.setdefault(key, ([[] for _ in lists], []))
        for column, tensors, tensor in zip(columns, lists, row, strict=True):
            if tensors:
                column.append(tensor)
        if with_indices:
            indices.append(position)
    return groups


def _belongs(original: Callable, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a tensor may be in one group with one on `device` of type `dtype`."""
    if tensor.device != device:
        return tensor.device.type == "cpu" and tensor.dtype in COUNTS
    return tensor.dtype in (dtype, *COUNTS) or _refusal(original, dtype, tensor.dtype) is None


def _refusal(original: Callable, dtype: torch.dtype, other: torch.dtype) -> str | None:
    """The words of `original` for tensors of `dtype` and `other` in one group; None if they may be.

    Which types may be in one group depends on the version of PyTorch.
    """
    try:
        original([[torch.empty(0, dtype=dtype)], [torch.empty(0, dtype=other)]], False)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None
