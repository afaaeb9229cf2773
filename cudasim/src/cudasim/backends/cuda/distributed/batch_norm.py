"""The operators of SyncBatchNorm, of which PyTorch has kernels for GPUs only.

The formulas are those of aten/src/ATen/native/cuda/Normalization.cuh. Statistics of numbers in
16 bits are in float32, as there; `input` is [batch, channels, ...], statistics are [channels],
those of several ranks [ranks, channels].
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import settle
from cudasim.dispatch.tags import gpu_of

aten = torch.ops.aten


def stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`batch_norm_stats`: mean and 1 / standard deviation of each channel."""
    var, mean = torch.var_mean(wide(input), dim=others(input), correction=0)
    return mean, torch.rsqrt(var + eps)


def gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """`batch_norm_gather_stats_with_counts`: those of the whole batch, from each rank's."""
    share = counts.to(mean.dtype).view(-1, 1)
    count = share.sum()
    whole = (mean * share).sum(0) / count
    squares = ((invstd**-2 - eps + (mean - whole) ** 2) * share).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(whole * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(squares / (count - 1) * momentum)
    return whole, torch.rsqrt(squares / count + eps)


def gather_stats_alike(input: Tensor, mean: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    """`batch_norm_gather_stats`: the same, where each rank has as many; the last is how many."""
    *before, count = others
    return gather_stats(input, mean, *before, mean.new_full(mean.shape[:1], count))


def normalize(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,
) -> Tensor:
    """`batch_norm_elemt`: the output."""
    out = (wide(input) - along(mean, input)) * along(invstd, input)
    if weight is not None:
        out = out * along(weight, input)
    if bias is not None:
        out = out + along(bias, input)
    return out.to(input.dtype)


def backward_sums(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`batch_norm_backward_reduce`: this rank's sums, and gradients of weight and bias."""
    sum_dy = wide(grad).sum(others(input))
    sum_dy_xmu = (wide(grad) * (wide(input) - along(mean, input))).sum(others(input))
    dtype = mean.dtype if weight is None else weight.dtype
    none = mean.new_empty(0)
    return (
        sum_dy,
        sum_dy_xmu,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else none,
        sum_dy.to(dtype, copy=True) if bias_g else none,
    )


def backward(
    grad: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """`batch_norm_backward_elemt`: the gradient of the input, with all ranks' sums."""
    total = count.sum()
    centred = (wide(input) - along(mean, input)) * along(invstd**2 * sum_dy_xmu / total, input)
    scale = invstd if weight is None else invstd * weight
    out = (wide(grad) - along(sum_dy / total, input) - centred) * along(scale, input)
    return out.to(input.dtype)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in the type in which GPUs add it up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def others(input: Tensor) -> list[int]:
    """All dimensions of `input` but that of the channels."""
    return [0, *range(2, input.dim())]


def along(channels: Tensor, input: Tensor) -> Tensor:
    """A number for each channel, shaped to meet `input`."""
    return channels.view(1, -1, *[1] * (input.dim() - 2))


def computed_by(function: Callable) -> Callable:
    """The rule of an operator that `function` computes on the CPU."""

    def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
        gpu = gpu_of(args[0])
        if gpu is None:  # the CPU has no such operator
            return func(*args, **kwargs)
        return settle(function(*args, **kwargs), gpu)

    return operator


for _func, _function in {
    aten.batch_norm_stats.default: stats,
    aten.batch_norm_gather_stats_with_counts.default: gather_stats,
    aten.batch_norm_gather_stats.default: gather_stats_alike,
    aten.batch_norm_elemt.default: normalize,
    aten.batch_norm_backward_reduce.default: backward_sums,
    aten.batch_norm_backward_elemt.default: backward,
}.items():
    rule(_func)(computed_by(_function))
