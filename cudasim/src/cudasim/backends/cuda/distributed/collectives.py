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
from cudasim.backends.cuda.distributed.groups import bind_arguments, roll_of
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of
from cudasim.torch_private.distributed import CoalescingManager
from cudasim.torch_private.tensors import use_count

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for


def collective(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Refuse tensors on the CPU, as NCCL does, and do what gloo lacks.

    Groups of gloo's own are left alone.
    """
    arguments = bind_arguments(original, args, kwargs)
    roll = roll_of(arguments.get("group"))
    if roll is None:
        return original(**arguments)
    tensors = tensors_in(arguments.values())
    if roll.only_nccl and any(gpu_of(tensor) is None for tensor in tensors):
        raise RuntimeError(refusals.CPU)

    use_counts = list(map(use_count, tensors))
    target = next(iter(arguments.values()))
    is_on_gpu = isinstance(target, Tensor) and gpu_of(target) is not None
    if is_on_gpu and arguments.get("op") is not None:
        work = reduce(original, arguments, target)
    else:
        work = original(**arguments)
    if work is None:
        wait_for_release(tensors, use_counts)
    return work


def reduce(original: Callable, arguments: dict[str, Any], target: Tensor) -> Any:
    """Reduce; an average, which gloo has not, is a sum and a division."""
    op = arguments["op"]
    refusals.refuse_reduction(op, target.dtype)
    is_scaled = op == dist.ReduceOp.PREMUL_SUM
    if op != dist.ReduceOp.AVG and not is_scaled:
        if op == dist.ReduceOp.SUM and target.dtype is torch.bool:
            arguments["op"] = dist.ReduceOp.MAX  # a logical or, as NCCL does it
        return original(**arguments)

    size = dist.get_world_size(arguments.get("group"))
    work = original(**arguments | {"op": dist.ReduceOp.SUM})
    if work is not None:
        work.wait()
    if is_scaled:
        _, factor = op.__getstate__()
        target.mul_(factor)
    elif target.is_floating_point() or target.is_complex():
        target.mul_(1 / size)
    else:  # cut off, as NCCL does it
        target.div_(size, rounding_mode="trunc")
    return work


def wait_for_release(tensors: list[Tensor], use_counts: list[int]) -> None:
    """Wait until gloo's thread holds none of the `tensors`, which had so many owners before.

    It drops them a moment after the collective is done. If it is the last owner, and that
    moment comes when the interpreter ends, while a variable holds the group, PyTorch
    aborts the process.
    """
    until = time.monotonic() + LETTING_GO  # something else may keep them
    while any(map(operator.gt, map(use_count, tensors), use_counts)):
        if time.monotonic() > until:
            return
        time.sleep(0)


def message(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Send or receive; where gloo gives up waiting, the error names the rank."""
    try:
        return collective(original, *args, **kwargs)
    except RuntimeError as error:
        arguments = bind_arguments(original, args, kwargs)
        roll = roll_of(arguments.get("group"))
        if roll is None or "Timed out" not in str(error):
            raise
        peer = arguments.get("src", arguments.get("dst"))
        in_group = arguments.get("group_src", arguments.get("group_dst"))
        if in_group is not None:
            peer = roll.ranks[in_group]
        work = f"WorkNCCL(OpType={original.__name__.upper()})"
        raise errors.timed_out(work, roll.timeout, [peer], []) from error


def all_to_all(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run `all_to_all` by `all_to_all_single`: gloo takes no parts that differ in size."""
    arguments = bind_arguments(original, args, kwargs)
    if roll_of(arguments.get("group")) is None:
        return original(**arguments)
    outputs = arguments.pop("output_tensor_list")
    inputs = arguments.pop("input_tensor_list")
    size = dist.get_world_size(arguments.get("group"))
    if len(outputs) != size or len(inputs) != size:
        raise ValueError(refusals.MESSAGES["list"])

    input_sizes = [tensor.numel() for tensor in inputs]
    output_sizes = [tensor.numel() for tensor in outputs]
    sent = torch.cat([tensor.reshape(-1) for tensor in inputs])
    received = sent.new_empty(sum(output_sizes))
    work = dist.all_to_all_single(
        received, sent, output_sizes, input_sizes, **arguments
    )
    if work is not None:
        work.wait()
    for target, part in zip(outputs, received.split(output_sizes), strict=True):
        target.copy_(part.view_as(target))
    return work


def coalescing(original: Callable, *args: Any, **kwargs: Any) -> AbstractContextManager:
    """Run collectives one by one where a device is named: gloo cannot put them together."""
    arguments = bind_arguments(original, args, kwargs)
    if arguments.get("device") is not None and roll_of(arguments.get("group")):
        return nullcontext(CoalescingManager())
    return original(**arguments)
