"""Python's functions between processes: what NCCL does and gloo lacks."""

import contextlib
import functools
import inspect
import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors
from cudasim.backends.cuda.distributed.groups import only_nccl, requested_backend
from cudasim.backends.cuda.distributed.refusals import CPU, LIST, refuse_reduction
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for

signature_of = functools.cache(inspect.signature)


def collective(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """A function between processes, with what NCCL refuses and gloo lacks.

    NCCL takes no tensors on the CPU. Groups that are gloo's anyway are left alone: it takes
    tensors of the CPU and of GPUs.
    """
    bound = signature_of(original).bind(*args, **kwargs)
    group = bound.arguments.get("group")
    if not requested_backend(group):
        return original(*args, **kwargs)
    tensors = tensors_in(bound.args)
    if only_nccl(group) and any(gpu_of(tensor) is None for tensor in tensors):
        raise RuntimeError(CPU)
    counts = [tensor._use_count() for tensor in tensors]
    target, op = bound.args[0], bound.arguments.get("op")
    if op is not None and isinstance(target, Tensor) and gpu_of(target) is not None:
        work = reduced(original, bound, target, group)
    else:
        work = original(*bound.args, **bound.kwargs)
    if work is None:
        let_go(tensors, counts)
    return work


def reduced(original: Callable, bound: inspect.BoundArguments, target: Tensor, group: Any) -> Any:
    """A reduction. An average is a sum and a division, as gloo has none."""
    op = bound.arguments["op"]
    refuse_reduction(op, target.dtype)
    averages, scales = op == dist.ReduceOp.AVG, op == dist.ReduceOp.PREMUL_SUM
    if averages or scales:
        bound.arguments["op"] = dist.ReduceOp.SUM
    elif op == dist.ReduceOp.SUM and target.dtype is torch.bool:
        bound.arguments["op"] = dist.ReduceOp.MAX  # a logical or, as NCCL does it
    work = original(*bound.args, **bound.kwargs)
    if work is not None and (averages or scales):
        work.wait()
    if scales:
        target.mul_(op.factor)
    elif averages and (target.is_floating_point() or target.is_complex()):
        target.mul_(1 / dist.get_world_size(group))
    elif averages:  # cut off, as NCCL does it
        target.div_(dist.get_world_size(group), rounding_mode="trunc")
    return work


def let_go(tensors: list[Tensor], counts: list[int]) -> None:
    """Wait until gloo's thread holds none of the `tensors`, which had so many owners before.

    It drops them a moment after the collective is done. If it is the last owner, and that moment
    comes when the interpreter ends, while a variable holds the group, PyTorch aborts the process.
    """
    until = time.monotonic() + LETTING_GO
    while any(map(operator.gt, (tensor._use_count() for tensor in tensors), counts)):
        if time.monotonic() > until:  # something else keeps them
            return
        time.sleep(0)


def message(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """`send` and `recv`: where gloo gives up waiting, the error names the rank."""
    try:
        return collective(original, *args, **kwargs)
    except RuntimeError as error:
        given = signature_of(original).bind(*args, **kwargs).arguments
        if not requested_backend(given.get("group")) or "Timed out" not in str(error):
            raise
        roll = session.rolls[(given.get("group") or dist.group.WORLD).group_name]
        within = given.get("group_src", given.get("group_dst"))
        peer = given.get("src", given.get("dst")) if within is None else roll.ranks[within]
        work = f"WorkNCCL(OpType={original.__name__.upper()})"
        raise errors.timed_out(work, roll.timeout, [peer], []) from error


def all_to_all(
    original: Callable,
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_to_all`, by `all_to_all_single`: gloo takes no parts that differ in size.

    In torch 2.11 it takes none at all.
    """
    if not requested_backend(group):
        return original(output_tensor_list, input_tensor_list, group, async_op)
    if {len(output_tensor_list), len(input_tensor_list)} != {dist.get_world_size(group)}:
        raise ValueError(LIST)
    given = torch.cat([tensor.reshape(-1) for tensor in input_tensor_list])
    there = [tensor.numel() for tensor in input_tensor_list]
    here = [tensor.numel() for tensor in output_tensor_list]
    taken = given.new_empty(sum(here))
    work = dist.all_to_all_single(taken, given, here, there, group=group, async_op=async_op)
    if work is not None:
        work.wait()
    for target, part in zip(output_tensor_list, taken.split(here), strict=True):
        target.copy_(part.view_as(target))
    return work


@contextlib.contextmanager
def coalescing(
    original: Callable, group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator:
    """One by one where a device is named, which gloo cannot put together."""
    if device is not None and requested_backend(group):
        yield dist.distributed_c10d._CoalescingManager()
        return
    with original(group, device, async_ops) as manager:
        yield manager
