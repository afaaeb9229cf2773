"""Python's functions between processes: what NCCL does and gloo lacks."""

import contextlib
import inspect
import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors, refusals
from cudasim.backends.cuda.distributed.groups import named, roll_of, signature_of
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for


def collective(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """A function between processes, with what NCCL refuses and gloo lacks.

    NCCL takes no tensors on the CPU. Groups that are gloo's anyway are left alone: it takes
    tensors of the CPU and of GPUs.
    """
    bound = signature_of(original).bind(*args, **kwargs)
    group = bound.arguments.get("group")
    roll = roll_of(group)
    if roll is None:
        return original(*args, **kwargs)
    tensors = tensors_in(bound.args)
    if roll.only_nccl and any(gpu_of(tensor) is None for tensor in tensors):
        raise RuntimeError(refusals.CPU)
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
    refusals.refuse_reduction(op, target.dtype)
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
    until = time.monotonic() + LETTING_GO  # something else may keep them
    while any(map(operator.gt, map(Tensor._use_count, tensors), counts)):
        if time.monotonic() > until:
            return
        time.sleep(0)


def message(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """`send` and `recv`: where gloo gives up waiting, the error names the rank."""
    try:
        return collective(original, *args, **kwargs)
    except RuntimeError as error:
        given = named(original, args, kwargs)
        roll = roll_of(given.get("group"))
        if roll is None or "Timed out" not in str(error):
            raise
        within = given.get("group_src", given.get("group_dst"))
        peer = given.get("src", given.get("dst")) if within is None else roll.ranks[within]
        work = f"WorkNCCL(OpType={original.__name__.upper()})"
        raise errors.timed_out(work, roll.timeout, [peer], []) from error


def all_to_all(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """`all_to_all`, by `all_to_all_single`: gloo takes no parts that differ in size."""
    bound = signature_of(original).bind(*args, **kwargs)
    bound.apply_defaults()
    outputs, inputs, group, async_op = bound.args
    if roll_of(group) is None:
        return original(*args, **kwargs)
    if {len(outputs), len(inputs)} != {dist.get_world_size(group)}:
        raise ValueError(refusals.LIST)
    given = torch.cat([tensor.reshape(-1) for tensor in inputs])
    here, there = ([tensor.numel() for tensor in each] for each in (outputs, inputs))
    taken = given.new_empty(sum(here))
    work = dist.all_to_all_single(taken, given, here, there, group=group, async_op=async_op)
    if work is not None:
        work.wait()
    for target, part in zip(outputs, taken.split(here), strict=True):
        target.copy_(part.view_as(target))
    return work


@contextlib.contextmanager
def coalescing(
    original: Callable, group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator:
    """One by one where a device is named, which gloo cannot put together."""
    if device is not None and roll_of(group):
        yield dist.distributed_c10d._CoalescingManager()
    else:
        with original(group, device, async_ops) as manager:
            yield manager
