"""The operators of SyncBatchNorm, of which PyTorch has kernels for GPUs only: formulas and types
are those of aten/src/ATen/native/cuda/Normalization.cuh. `input` is [batch, channels, ...],
statistics are [channels], those of several ranks [ranks, channels]."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import settle
from cudasim.dispatch.tags import gpu_of


def stats(input: Tensor, eps: float) -> tuple[Tensor, ...]:
    """Mean and 1 / standard deviation of each channel."""
    var, mean = torch.var_mean(wide(input), dim=others(input), correction=0)
    return mean, torch.rsqrt(var + eps)


def gather_stats_with_counts(
    input: Tensor, mean: Tensor, invstd: Tensor, *rest: Any
) -> tuple:
    """The same of the whole batch, from that of each rank and its part of the batch."""
    running_mean, running_var, momentum, eps, counts = rest
    share = counts.to(mean.dtype).view(-1, 1)
    count = share.sum()
    whole = (mean * share).sum(0) / count
    squares = ((invstd**-2 - eps + (mean - whole) ** 2) * share).sum(0)
    for running, new in (running_mean, whole), (running_var, squares / (count - 1)):
        if running is not None:
            running.mul_(1 - momentum).add_(new * momentum)
    return whole, torch.rsqrt(squares / count + eps)


def gather_stats(input: Tensor, mean: Tensor, *rest: Any) -> tuple:
    """The same, where each rank has as many, of which the last argument tells."""
    counts = mean.new_full(mean.shape[:1], rest[-1])
    return gather_stats_with_counts(input, mean, *rest[:-1], counts)


def elemt(input: Tensor, weight: Any, bias: Any, mean: Tensor, *rest: Any) -> Tensor:
    """The output. `weight` and `bias` may be None here and below."""
    out = centred(input, mean) * along(rest[0], input)  # 1 / standard deviation
    if weight is not None:
        out = out * along(weight, input)
    if bias is not None:
        out = out + along(bias, input)
    return out.to(input.dtype)


def backward_reduce(
    grad: Tensor, input: Tensor, mean: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    invstd, weight, _, of_weight, of_bias = rest
    sum_dy = wide(grad).sum(others(input))
    sum_dy_xmu = (wide(grad) * centred(input, mean)).sum(others(input))
    dtype = mean.dtype if weight is None else weight.dtype
    none = mean.new_empty(0)
    weight_grad = (sum_dy_xmu * invstd).to(dtype) if of_weight else none
    return (
        sum_dy,
        sum_dy_xmu,
        weight_grad,
        sum_dy.to(dtype, copy=True) if of_bias else none,
    )


def backward_elemt(
    grad: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, *rest: Any
) -> Tensor:
    weight, sum_dy, sum_dy_xmu, count = rest
    total = count.sum()
    slope = centred(input, mean) * along(invstd**2 * sum_dy_xmu / total, input)
    scale = invstd if weight is None else invstd * weight
    out = (wide(grad) - along(sum_dy / total, input) - slope) * along(scale, input)
    return out.to(input.dtype)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in the type in which GPUs add it up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def others(input: Tensor) -> list[int]:
    return [0, *range(2, input.dim())]


def along(channels: Tensor, input: Tensor) -> Tensor:
    """A number for each channel, shaped to meet `input`."""
    return channels.view(1, -1, *[1] * (input.dim() - 2))


def centred(input: Tensor, mean: Tensor) -> Tensor:
    return wide(input) - along(mean, input)


def computed(function: Callable, func: Callable, args: tuple, kwargs: dict) -> Any:
    """What `function` makes of tensors on a GPU; the CPU has no such operator as `func`."""
    gpu = gpu_of(args[0])
    return func(*args, **kwargs) if gpu is None else settle(function(*args), gpu)


forward = (stats, gather_stats_with_counts, gather_stats, elemt)
for _function in (*forward, backward_reduce, backward_elemt):
    _operator = getattr(torch.ops.aten, f"batch_norm_{_function.__name__}").default
    rule(_operator)(functools.partial(computed, _function))
