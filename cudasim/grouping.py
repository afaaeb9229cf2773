"""Optimizers group parameters by device and type before they step: the GPUs are told apart."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cudasim.patching import Patches

COUNTS = (torch.float32, torch.float64)  # types that `step` may have, whatever the parameter's
STATES = (*COUNTS, torch.bfloat16)  # and those that averages may have

Groups = dict[tuple[torch.device, torch.dtype], tuple[list[list[Tensor | None]], list[int]]]


def patch_grouping(patches: Patches) -> None:
    """Let optimizers and gradient clipping group tensors by the GPU that they are on."""
    patches.replace(torch._C, "_group_tensors_by_device_and_dtype", group)


def group(lists: Sequence[Sequence[Tensor | None]], with_indices: bool = False) -> Groups:
    """Tensors of the same position, grouped by device and type of the first list's.

    An empty list stays empty. Raises RuntimeError, with the words of ATen's
    `native/ForeachUtils.h`, if those of one position do not belong together.
    """
    groups: Groups = {}
    for position, first in enumerate(lists[0]):
        key = first.device, first.dtype
        row = [tensors[position] if tensors else None for tensors in lists]
        if not all(_belongs(tensor, *key) for tensor in row if tensor is not None):
            raise RuntimeError(
                "Tensors of the same index must be on the same device and the same dtype "
                "except `step` tensors that can be CPU and float32/64, and optimizer states "
                "that can be bfloat16 for mixed-precision training"
            )
        columns, indices = groups.setdefault(key, ([[] for _ in lists], []))
        for column, tensors, tensor in zip(columns, lists, row, strict=True):
            if tensors:
                column.append(tensor)
        if with_indices:
            indices.append(position)
    return groups


def _belongs(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> bool:
    """True for a tensor that may stand beside one on `device` of type `dtype`."""
    if tensor.device == device:
        return tensor.dtype in (dtype, *STATES)
    return tensor.device.type == "cpu" and tensor.dtype in COUNTS
