"""Optimizers group parameters by device and type before they step: each GPU has its own group."""

from collections.abc import Callable, Sequence
from itertools import chain

import torch

from cudasim.patching import replaces

COUNTS = (
    torch.float32,
    torch.float64,
)  # types that `step` may have, whatever the parameter's


@replaces(torch._C, "_group_tensors_by_device_and_dtype")
def group(
    original: Callable, lists: Sequence[Sequence], with_indices: bool = False
) -> dict:
    """Tensors of one position, by device and type of the first list's. Empty lists stay empty."""
    places: dict[torch.device, list[int]] = {}
    for place, first in enumerate(lists[0]):
        places.setdefault(first.device, []).append(place)
    groups = []
    for device, chosen in places.items():
        rows = [
            [tensors[place] for place in chosen] if tensors else [] for tensors in lists
        ]
        for tensor in chain.from_iterable(rows[1:]):
            apart = tensor is not None and tensor.device != device
            if apart and (tensor.device.type != "cpu" or tensor.dtype not in COUNTS):
                original(
                    [[torch.empty(0)], [torch.empty(0, dtype=torch.int64)]], False
                )  # refuses
        for (_, dtype), (columns, indices) in original(rows, True).items():
            groups.append(
                ([chosen[index] for index in indices], (device, dtype), columns)
            )
    return {
        key: (columns, indices if with_indices else [])
        for indices, key, columns in sorted(groups, key=lambda group: group[0][0])
    }
