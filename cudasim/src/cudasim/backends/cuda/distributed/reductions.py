"""Reductions as NCCL does them, made of those that gloo has.

Gloo has no averages and no scaled sums. NCCL multiplies floating-point numbers before it
adds them, and divides the sum of integers, cutting off (`hostToDevRedOp` in its
src/enqueue.cc). Gloo does not know 8-bit floats: they are added in 32 bits.

An operator of `torch.ops.c10d` is given its reduction in a box that Python cannot open. So
the methods of a group, by which Python calls the operators, note what they are asked for,
and pass on what gloo has to do. C++ itself only ever adds up.
"""

import threading
from collections.abc import Callable
from copy import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.refusals import (
    REDUCED_FLOAT8,
    is_reduction,
)
from cudasim.dispatch.arguments import map_tensors, tensors_in
from cudasim.dispatch.tags import gpu_of
from cudasim.patching import changed
from cudasim.session import session
from cudasim.torch_private.distributed import REDUCE_SCATTER_BASE

SUM = dist.ReduceOp(dist.ReduceOp.SUM)
MAX = dist.ReduceOp(dist.ReduceOp.MAX)


# The methods of a process group that reduce.
METHODS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    REDUCE_SCATTER_BASE.name,
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced",
)


class ReductionOfThread(threading.local):
    op = SUM  # that the method which runs now was asked for


reduction_of_thread = ReductionOfThread()


def method(
    original: Callable, group: dist.ProcessGroup, *args: Any, **kwargs: Any
) -> Any:
    """Run a method of a group with the reduction that gloo has to do, and note the other."""
    tensors = tensors_in((*args, *kwargs.values()))
    is_ours = group in session.rolls
    if not is_ours or not tensors or all(gpu_of(tensor) is None for tensor in tensors):
        return original(group, *args, **kwargs)

    dtype = tensors[0].dtype
    values = (*args, *kwargs.values())
    options = next((value for value in values if hasattr(value, "reduceOp")), None)
    if options is None:
        op = next(filter(_is_op, values), SUM)
        args = [gloo_op(op, dtype) if value is op else value for value in args]
        if "op" in kwargs:
            kwargs["op"] = gloo_op(op, dtype)
        with changed(reduction_of_thread, op=op):
            return original(group, *args, **kwargs)

    op = copy(options.reduceOp)  # which is a part of the options
    options.reduceOp = gloo_op(op, dtype)
    try:
        with changed(reduction_of_thread, op=op):
            return original(group, *args, **kwargs)
    finally:
        options.reduceOp = op


def _is_op(value: Any) -> bool:
    return isinstance(value, dist.ReduceOp | dist.ReduceOp.RedOpType)


def gloo_op(op: dist.ReduceOp, dtype: torch.dtype) -> dist.ReduceOp:
    """Return the reduction that gloo has to do for `op`."""
    if dtype is torch.bool and is_reduction(op, "SUM"):
        return MAX  # a logical or, as NCCL does it
    if is_reduction(op, "AVG") or is_reduction(op, "PREMUL_SUM"):
        return SUM
    return op


def factor_of(op: Any, size: int) -> float | Tensor:
    """Return what each number is multiplied by in a group of `size` ranks."""
    if is_reduction(op, "AVG"):
        return 1 / size
    if is_reduction(op, "PREMUL_SUM"):
        _, factor = op.__getstate__()
        return factor
    return 1


def scaled(value: Any, op: Any, size: int) -> Any:
    """Return floating-point tensors multiplied as NCCL does it before it adds them."""
    factor = factor_of(op, size)

    def scale(tensor: Tensor) -> Tensor:
        return tensor * factor if is_inexact(tensor) else tensor

    return value if factor == 1 else map_tensors(scale, value)


def scale_in_place(tensors: list[Tensor], op: Any, size: int) -> None:
    factor = factor_of(op, size)
    if factor != 1:
        for tensor in filter(is_inexact, tensors):
            tensor.mul_(factor)


def divide(tensors: list[Tensor], op: Any, size: int) -> None:
    """Divide integers once they are added up, if their average is asked for."""
    for tensor in tensors:
        if not is_inexact(tensor):
            tensor.div_(size, rounding_mode="trunc")


def is_inexact(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def reduce(run: Callable[[tuple], Any], args: tuple) -> Any:
    """Run an operator of `torch.ops.c10d` that reduces; `run` waits for it.

    Its first argument is written. The second is read, or it is the process group.
    """
    op = reduction_of_thread.op
    targets = tensors_in(args[:1])
    if targets[0].dtype in REDUCED_FLOAT8:
        return _reduce_in_32_bits(run, args)

    new_args = list(args)
    if isinstance(args[1], list | Tensor):
        size = dist.ProcessGroup.unbox(args[2]).size()
        new_args[1] = scaled(args[1], op, size)
    else:
        size = dist.ProcessGroup.unbox(args[1]).size()
        scale_in_place(targets, op, size)

    out = run(tuple(new_args))
    if is_reduction(op, "AVG") and not is_inexact(targets[0]):
        divide(targets, op, size)
    return out


def _reduce_in_32_bits(run: Callable[[tuple], Any], args: tuple) -> Any:
    wide_args = tuple(map_tensors(Tensor.float, list(args)))
    out = reduce(run, wide_args)
    wide_targets = tensors_in(wide_args[:1])
    for target, wide in zip(tensors_in(args[:1]), wide_targets, strict=True):
        target.copy_(wide)
    return out
