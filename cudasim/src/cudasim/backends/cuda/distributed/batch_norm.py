"""The operators of SyncBatchNorm, of which PyTorch has kernels for GPUs only.

Formulas and types are those of aten/src/ATen/native/cuda/Normalization.cuh. `input` is
[batch, channels, ...], statistics are [channels], those of several ranks
[ranks, channels]. `invstd` is 1 / standard deviation. `weight` and `bias` may be None.
"""

import torch
from torch import Tensor

from cudasim.dispatch.dtypes import widened
from cudasim.dispatch.operators import substitute


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return (mean, invstd) of each channel."""
    var, mean = torch.var_mean(widened(input), dim=_other_dims(input), correction=0)
    return mean, torch.rsqrt(var + eps)


def gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the same of the whole batch, from that of each rank and its part of it."""
    counts = counts.to(mean.dtype).view(-1, 1)
    total = counts.sum()
    whole_mean = (mean * counts).sum(0) / total
    var = invstd**-2 - eps
    squares = ((var + (mean - whole_mean) ** 2) * counts).sum(0)
    _update(running_mean, whole_mean, momentum)
    _update(running_var, squares / (total - 1), momentum)
    return whole_mean, torch.rsqrt(squares / total + eps)


def _update(running: Tensor | None, new: Tensor, momentum: float) -> None:
    if running is not None:
        running.mul_(1 - momentum).add_(new * momentum)


def gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """Return the same, where each rank has as many: `count`."""
    counts = mean.new_full(mean.shape[:1], count)
    return gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def elemt(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,
) -> Tensor:
    """Return the output of the layer."""
    out = _centred(input, mean) * _along(invstd, input)
    if weight is not None:
        out = out * _along(weight, input)
    if bias is not None:
        out = out + _along(bias, input)
    return out.to(input.dtype)


def backward_reduce(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, ...]:
    """Return (sum_dy, sum_dy_xmu, gradient of the weight, gradient of the bias)."""
    dims = _other_dims(input)
    sum_dy = widened(grad).sum(dims)
    sum_dy_xmu = (widened(grad) * _centred(input, mean)).sum(dims)
    dtype = mean.dtype if weight is None else weight.dtype
    weight_grad = bias_grad = mean.new_empty(0)  # where none is asked for
    if weight_g:
        weight_grad = (sum_dy_xmu * invstd).to(dtype)
    if bias_g:
        bias_grad = sum_dy.to(dtype, copy=True)
    return sum_dy, sum_dy_xmu, weight_grad, bias_grad


def backward_elemt(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Return the gradient of the input."""
    total = count.sum()
    slope = _centred(input, mean) * _along(invstd**2 * sum_dy_xmu / total, input)
    scale = invstd if weight is None else invstd * weight
    mean_dy = _along(sum_dy / total, input)
    out = (widened(grad) - mean_dy - slope) * _along(scale, input)
    return out.to(input.dtype)


def _other_dims(input: Tensor) -> list[int]:
    """Return all dimensions but that of the channels."""
    return [0, *range(2, input.dim())]


def _along(channels: Tensor, input: Tensor) -> Tensor:
    """Return a number for each channel, shaped to meet `input`."""
    return channels.view(1, -1, *[1] * (input.dim() - 2))


def _centred(input: Tensor, mean: Tensor) -> Tensor:
    return widened(input) - _along(mean, input)


FUNCTIONS = (
    stats,
    gather_stats_with_counts,
    gather_stats,
    elemt,
    backward_reduce,
    backward_elemt,
)
for _function in FUNCTIONS:
    _operator = getattr(torch.ops.aten, f"batch_norm_{_function.__name__}").default
    substitute(_operator)(_function)
