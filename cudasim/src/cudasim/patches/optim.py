"""Optimizers group parameters by device and type before they step.

Each GPU has a group of its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.patching import replaces
from cudasim.torch_private.tensors import GROUP_TENSORS

# The types that a parameter's `step`, which may be on the CPU, can have.
STEP_DTYPES = (torch.float32, torch.float64)

Rows = Sequence[Sequence[Tensor | None]]


class Group(NamedTuple):
    """The tensors of one device and type."""

    key: tuple[torch.device, torch.dtype]
    lists: Rows
    positions: list[int]  # in the lists that were grouped


@replaces(*GROUP_TENSORS)
def group_tensors(original: Callable, lists: Rows, with_indices: bool = False) -> dict:
    """Group the tensors of `lists` by the device and the type of those in the first list.

    Tensors in one position stay together. Empty lists stay empty.
    """
    positions_by_device: dict[torch.device, list[int]] = {}
    for position, tensor in enumerate(lists[0]):
        positions_by_device.setdefault(tensor.device, []).append(position)

    groups = []
    for device, positions in positions_by_device.items():
        rows = [_chosen(tensors, positions) for tensors in lists]
        for tensors in rows[1:]:
            for tensor in tensors:
                if not _may_stand_beside(tensor, device):
                    _refuse(original)
        # C++, which takes all of ours to be on the CPU, groups them by type.
        for (_, dtype), (columns, indices) in original(rows, True).items():
            members = [positions[index] for index in indices]
            groups.append(Group((device, dtype), columns, members))

    groups.sort(key=lambda group: group.positions[0])
    result = {}
    for group in groups:
        result[group.key] = (group.lists, group.positions if with_indices else [])
    return result


def _chosen(tensors: Sequence, positions: list[int]) -> list:
    return [tensors[position] for position in positions] if tensors else []


def _may_stand_beside(tensor: Tensor | None, device: torch.device) -> bool:
    if tensor is None or tensor.device == device:
        return True
    return tensor.device.type == "cpu" and tensor.dtype in STEP_DTYPES


def _refuse(original: Callable) -> None:
    """Raise C++'s error for tensors in one position that do not go together."""
    original([[torch.empty(0)], [torch.empty(0, dtype=torch.int64)]], False)
