"""Two old parts of `torch.cuda`: types such as `torch.cuda.FloatTensor`, and marks of NVTX."""

import itertools
from typing import Any

import torch


class LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and similar types: a dtype on a GPU."""

    def __call__(cls, *args: Any) -> torch.Tensor:
        """A tensor on the current GPU, from sizes or from data."""
        return getattr(torch, cls.__name__)(*args).cuda()

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a tensor of that type on a GPU."""
        return isinstance(instance, torch.Tensor) and instance.type() == str(cls)

    def __repr__(cls) -> str:
        """As PyTorch prints it."""
        return f"<class '{cls}'>"

    def __str__(cls) -> str:
        """The name by which `Tensor.type` knows it."""
        return f"torch.cuda.{cls.__name__}"


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        """No range is open."""
        self._depth = 0
        self._ids = itertools.count(1)

    def rangePushA(self, message: str) -> int:
        """Open a range; returns how many were open."""
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        """Close the latest range; returns how many are still open, -1 if none was."""
        self._depth = max(self._depth - 1, -1)
        left, self._depth = self._depth, max(self._depth, 0)
        return left

    def rangeStartA(self, message: str) -> int:
        """Open a range that any thread may close; returns its number."""
        return next(self._ids)

    def rangeEnd(self, number: int) -> None:
        """Close the range of that number."""

    def markA(self, message: str) -> None:
        """Mark a moment."""

    def deviceRangeStart(self, message: str, stream: int) -> None:
        """Open a range on a stream."""

    def deviceRangeEnd(self, handle: Any, stream: int) -> None:
        """Close a range on a stream."""
