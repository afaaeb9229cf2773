"""What an operator of PyTorch does on its device: the table of rules."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cudasim.timing.formulas import Work


def work_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Work | None:
    """The work of `func`, from shapes, types and layouts alone; None for a view or a question."""
    tensors = [each for each in (*args, *kwargs.values(), out) if isinstance(each, Tensor)]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return Work("other", 0.0, float(size))
