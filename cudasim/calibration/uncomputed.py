"""Large products and convolutions without computing them: modelled time needs their shapes only."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten

LARGE = {
    aten.mm.default,
    aten.bmm.default,
    aten.addmm.default,
    aten.baddbmm.default,
    aten.convolution.default,
    aten.convolution_backward.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
}


class Uncomputed(TorchDispatchMode):
    """Inside, the operations of LARGE give zeros of the right shape.

    Entered before a simulation, it takes the place of the CPU that computes for the GPUs.
    """

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`, or find out the shapes of what it would return."""
        kwargs = kwargs or {}
        if func not in LARGE:
            return func(*args, **kwargs)
        args, kwargs = tree_map_only(
            Tensor, lambda each: each.to("meta"), (args, kwargs)
        )
        return tree_map_only(Tensor, _zeros, func(*args, **kwargs))


def _zeros(like: Tensor) -> Tensor:
    found = torch.empty_strided(
        like.shape, like.stride(), dtype=like.dtype, device="cpu"
    )
    return found.zero_()
