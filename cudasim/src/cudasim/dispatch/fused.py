"""Kernels of CUDA that do in one step, or with less memory, what the CPU's do.

The files named below are in aten/src/ATen/native of PyTorch.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.dtypes import widened
from cudasim.dispatch.operators import rule, substitute
from cudasim.dispatch.placement import general
from cudasim.dispatch.substitutes import require
from cudasim.torch_private.operators import (
    Softmax,
    fused_rms_norm,
    fused_rms_norm_backward,
    log_softmax,
    softmax,
)
from cudasim.words import WORDS

aten = torch.ops.aten
MESSAGES = WORDS["kernels"]


# Softmax of halves, in float32 (cuda/SoftMax.cu).


def _forward(softmax: Softmax, input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    require(input.dtype is torch.float16, MESSAGES["half to float"])
    return softmax.forward(input.float(), dim, False)


def _backward(
    softmax: Softmax, grad: Tensor, output: Tensor, dim: int, dtype: torch.dtype
) -> Tensor:
    is_known = grad.dtype is torch.float32 and dtype is torch.float16
    require(is_known, MESSAGES["softmax dtypes"])
    return softmax.backward(grad, output, dim, grad.dtype).to(dtype)


def _stays_narrow(args: tuple) -> bool:
    return not args[2]


def _has_dtype_of_input(args: tuple) -> bool:
    return args[0].dtype is args[3]


for _softmax in (softmax, log_softmax):
    substitute(_softmax.forward, idle=_stays_narrow)(partial(_forward, _softmax))
    substitute(_softmax.backward, idle=_has_dtype_of_input)(
        partial(_backward, _softmax)
    )


# The logarithm of the sigmoid (cuda/Activation.cpp, Activation.cpp). The CPU's kernel keeps
# a buffer for its backward, and CUDA's an empty one.


@substitute(aten.log_sigmoid_forward.default)
def log_sigmoid(input: Tensor) -> tuple[Tensor, Tensor]:
    """Lay the result out as the operand, as CUDA's kernel does."""
    output, buffer = aten.empty_like.default(input), input.new_empty(0)
    aten.log_sigmoid_forward.output(input, output=output, buffer=input.new_empty(0))
    return output, buffer


@substitute(aten.log_sigmoid_forward.output)
def log_sigmoid_out(
    input: Tensor, *, output: Tensor, buffer: Tensor
) -> tuple[Tensor, Tensor]:
    aten.log_sigmoid_forward.output(input, output=output, buffer=input.new_empty(0))
    return output, buffer


@substitute(
    aten.log_sigmoid_backward.default,
    aten.log_sigmoid_backward.grad_input,
)
def log_sigmoid_backward(
    grad: Tensor, input: Tensor, buffer: Tensor, *, grad_input: Tensor | None = None
) -> Tensor:
    """Compute the buffer of the CPU's kernel again."""
    buffer = input.abs().neg_().exp_()
    if grad_input is None:
        return aten.log_sigmoid_backward.default(grad, input, buffer)
    return aten.log_sigmoid_backward.grad_input(
        grad, input, buffer, grad_input=grad_input
    )


# The fused normalization by the root of the mean square (cuda/layer_norm_kernel.cu).


@rule(fused_rms_norm)
def rms_norm(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run as one kernel what PyTorch takes apart on the CPU."""
    return general(func, args, kwargs)


@substitute(fused_rms_norm_backward)
def rms_norm_backward(
    grad: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the input and of the weight, of those that are asked for."""
    first = input.dim() - len(normalized_shape)
    of_row = list(range(first, input.dim()))
    wide_grad = widened(grad)
    normalized = widened(input) * rstd

    input_grad = weight_grad = None
    if output_mask[0]:
        scaled = wide_grad if weight is None else wide_grad * widened(weight)
        mean = (normalized * scaled).mean(of_row, keepdim=True)
        input_grad = ((scaled - normalized * mean) * rstd).to(input.dtype)
        input_grad = input_grad.contiguous()
    if output_mask[1] and weight is not None:
        weight_grad = (wide_grad * normalized).sum_to_size(weight.shape)
        weight_grad = weight_grad.to(weight.dtype)
    return input_grad, weight_grad
