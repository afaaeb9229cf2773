"""Count the memory of tensors on devices where PyTorch does not, such as the CPU."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.sizes import BLOCK, round_up
from cudasim.modes import LightMode
from cudasim.torch_private.operators import tree_leaves
from cudasim.torch_private.tensors import address_of


class Storages(LightMode):
    """Counts the bytes of the storages of all results for as long as they exist."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.peak = 0
        self._known: set[int] = (
            set()
        )  # the storages that were there before, or are counted
        self.held = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        self._forget(tree_leaves((args, kwargs)))
        result = function(*args, **(kwargs or {}))
        self._count(tree_leaves(result))
        return result

    def _forget(self, operands: Iterable[object]) -> None:
        """Leave out storages that existed before: operands that are not results."""
        for tensor in self._tensors(operands):
            self._known.add(address_of(tensor.untyped_storage()))

    def _count(self, results: Iterable[object]) -> None:
        for tensor in self._tensors(results):
            storage = tensor.untyped_storage()
            key = address_of(storage)
            if key in self._known:
                continue
            self._known.add(key)
            size = round_up(storage.nbytes(), BLOCK)
            self.held += size
            self.peak = max(self.peak, self.held)
            weakref.finalize(storage, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.held -= size

    def _tensors(self, values: Iterable[object]) -> list[Tensor]:
        return [
            value
            for value in values
            if isinstance(value, Tensor) and value.device == self.device
        ]
