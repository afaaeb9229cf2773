"""Python's functions between processes: what NCCL does and gloo lacks."""

import operator
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors, refusals
from cudasim.backends.cuda.distributed.groups import named, roll_of
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for


def collective(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """What NCCL refuses (tensors on the CPU) and gloo lacks. Groups of gloo's own are let be."""
    given = named(original, args, kwargs)
    roll = roll_of(given.get("group"))
    if roll is None:
        return original(**given)
    tensors = tensors_in(given.values())
    if roll.only_nccl and any(gpu_of(tensor) is None for tensor in tensors):
        raise RuntimeError(refusals.CPU)
    counts, target = list(map(Tensor._use_count, tensors)), next(iter(given.values()))
    adds = given.get("op") is not None and isinstance(target, Tensor) and gpu_of(target)
    work = reduced(original, given, target) if adds else original(**given)
    if work is None:
        let_go(tensors, counts)
    return work


def reduced(original: Callable, given: dict[str, Any], target: Tensor) -> Any:
    """An average is a sum and a division, as gloo has none."""
    op, size = given["op"], dist.get_world_size(given.get("group"))
    refusals.refuse_reduction(op, target.dtype)
    averages, scales = op == dist.ReduceOp.AVG, op == dist.ReduceOp.PREMUL_SUM
    if not (averages or scales):
        if op == dist.ReduceOp.SUM and target.dtype is torch.bool:
            given["op"] = dist.ReduceOp.MAX  # a logical or, as NCCL does it
        return original(**given)
    work = original(**given | {"op": dist.ReduceOp.SUM})
    if work is not None:
        work.wait()
    if scales or target.is_floating_point() or target.is_complex():
        target.mul_(op.__getstate__()[1] if scales else 1 / size)
    else:  # cut off, as NCCL does it
        target.div_(size, rounding_mode="trunc")
    return work


def let_go(tensors: list[Tensor], counts: list[int]) -> None:
    """Wait until gloo's thread holds none of the `tensors`, which had so many owners before. It
    drops them a moment after the collective is done. If it is the last owner, and that moment comes
    when the interpreter ends, while a variable holds the group, PyTorch aborts the process."""
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
        peer = (
            given.get("src", given.get("dst")) if within is None else roll.ranks[within]
        )
        work = f"WorkNCCL(OpType={original.__name__.upper()})"
        raise errors.timed_out(work, roll.timeout, [peer], []) from error


def all_to_all(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """`all_to_all`, by `all_to_all_single`: gloo takes no parts that differ in size."""
    asked = named(original, args, kwargs)
    if roll_of(asked.get("group")) is None:
        return original(**asked)
    outputs, inputs = asked.pop("output_tensor_list"), asked.pop("input_tensor_list")
    if {len(outputs), len(inputs)} != {dist.get_world_size(asked.get("group"))}:
        raise ValueError(refusals.SAID["list"])
    given = torch.cat([tensor.reshape(-1) for tensor in inputs])
    here, there = ([tensor.numel() for tensor in each] for each in (outputs, inputs))
    taken = given.new_empty(sum(here))
    work = dist.all_to_all_single(taken, given, here, there, **asked)
    if work is not None:
        work.wait()
    for target, part in zip(outputs, taken.split(here), strict=True):
        target.copy_(part.view_as(target))
    return work


def coalescing(original: Callable, *args: Any, **kwargs: Any) -> AbstractContextManager:
    """One by one where a device is named, which gloo cannot put together."""
    given = named(original, args, kwargs)
    if given.get("device") is not None and roll_of(given.get("group")):
        return nullcontext(dist.distributed_c10d._CoalescingManager())
    return original(**given)
