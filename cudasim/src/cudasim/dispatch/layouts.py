"""Results that CUDA's kernels lay out in memory otherwise than the CPU's.

`tables.json` lists the operators under `layouts`. Some are `contiguous` on CUDA, whereas
the CPU's follow their operands: for images in `torch.channels_last`, for example. Others
are laid out `as_on_meta`: PyTorch's kernels for the meta device, which compute no numbers,
follow CUDA's there.

This was settled by CUDA's sources in aten/src/ATen/native. Those of `interpolate` keep the
layout of their operand, although the compiler's decompositions do not.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import map_tensors, tensors_in
from cudasim.dispatch.foresight import run_on_meta
from cudasim.dispatch.operators import substitute
from cudasim.dispatch.tables import TABLES

aten = torch.ops.aten
CONTIGUOUS: list[str] = TABLES["layouts"]["contiguous"]
# The format of images with so many dimensions whose channels are last.
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
AS_ON_META: list[str] = TABLES["layouts"]["as_on_meta"]


def _contiguous(func: Callable, *args, **kwargs) -> Any:
    return map_tensors(Tensor.contiguous, func(*args, **kwargs))


def _are_contiguous(args: tuple) -> bool:
    return all(tensor.is_contiguous() for tensor in tensors_in(args))


def _as_on_meta(func: Callable, *args, **kwargs) -> Any:
    out = func(*args, **kwargs)
    on_meta = iter(tensors_in((run_on_meta(func, args, kwargs),)))

    def lay_out(result: Tensor) -> Tensor:
        model = next(on_meta, None)
        if model is None or model.shape != result.shape or not result.numel():
            return result
        if model.stride() == result.stride():
            return result
        return result.new_empty_strided(model.shape, model.stride()).copy_(result)

    return map_tensors(lay_out, out)


@substitute(aten.native_dropout_backward.default)
def dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Follow the gradient, as CUDA's kernel does (native/cuda/Dropout.cu).

    The kernel for the meta device would import `torch._dynamo`. That takes a second, and a
    warning that was shown before is then shown again: SymPy changes the filters.
    """
    out = aten.native_dropout_backward.default(grad_output, mask, scale)
    return out.contiguous(memory_format=_suggested_format(grad_output))


def _suggested_format(tensor: Tensor) -> torch.memory_format:
    """Return how a result that follows `tensor` is laid out (`suggest_memory_format`)."""
    channels_last = CHANNELS_LAST.get(tensor.dim())
    if channels_last is None or tensor.is_contiguous():
        return torch.contiguous_format
    is_last = tensor.is_contiguous(memory_format=channels_last)
    return channels_last if is_last else torch.contiguous_format


for _name in CONTIGUOUS:
    _func = getattr(aten, _name).default
    substitute(_func, idle=_are_contiguous)(partial(_contiguous, _func))
for _name in AS_ON_META:
    _func = getattr(aten, _name).default
    substitute(_func)(partial(_as_on_meta, _func))
