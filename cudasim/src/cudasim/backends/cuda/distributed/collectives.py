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
from cudasim.backends.cuda.distributed.backends import only_nccl, requested_backend
from cudasim.backends.cuda.distributed.refusals import refuse_list, refuse_reduction
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for


def make_collective(original: Callable) -> Callable:
    """A function between processes, with what NCCL refuses and gloo lacks.

    NCCL takes no tensors on the CPU. An average is a sum and a division, as gloo has none.
    Groups that are gloo's anyway are left alone: it takes tensors of the CPU and of GPUs.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        group = bound.arguments.get("group")
        if not requested_backend(group):
            return original(*args, **kwargs)
        tensors = tensors_in(bound.args)
        if only_nccl(group) and any(gpu_of(tensor) is None for tensor in tensors):
            raise RuntimeError("No backend type associated with device type cpu")
        counts = [tensor._use_count() for tensor in tensors]
        work = begin(bound, group)
        if work is None:
            let_go(tensors, counts)
        return work

    def begin(bound: inspect.BoundArguments, group: Any) -> Any:
        op = bound.arguments.get("op")
        target = bound.args[0]
        if op is None or gpu_of_first(target) is None:
            return original(*bound.args, **bound.kwargs)
        refuse_reduction(op, target)
        if op == dist.ReduceOp.SUM and target.dtype is torch.bool:
            bound.arguments["op"] = dist.ReduceOp.MAX  # a logical or, as NCCL does it
            return original(*bound.args, **bound.kwargs)
        factor = factor_after(op, group)
        if factor is None:
            return original(*bound.args, **bound.kwargs)
        bound.arguments["op"] = dist.ReduceOp.SUM
        work = original(*bound.args, **bound.kwargs)
        if work is not None:
            work.wait()
        scale(target, factor)
        return work

    return collective


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


def make_p2p(original: Callable) -> Callable:
    """`send` and `recv`: where gloo gives up waiting, the error names the rank."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def p2p(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            given = signature.bind(*args, **kwargs).arguments
            if not requested_backend(given.get("group")) or "Timed out" not in str(error):
                raise
            roll = session.rolls[(given.get("group") or dist.group.WORLD).group_name]
            within = given.get("group_src", given.get("group_dst"))
            peer = given.get("src", given.get("dst")) if within is None else roll.ranks[within]
            work = f"WorkNCCL(OpType={original.__name__.upper()})"
            raise errors.timed_out(work, roll.timeout, [peer], []) from error

    return p2p


def make_all_to_all(original: Callable) -> Callable:
    """`all_to_all`, by `all_to_all_single`: gloo takes no parts that differ in size.

    In torch 2.11 it takes none at all.
    """

    @functools.wraps(original)
    def all_to_all(
        output_tensor_list: list[Tensor],
        input_tensor_list: list[Tensor],
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        if not requested_backend(group):
            return original(output_tensor_list, input_tensor_list, group, async_op)
        for tensors in output_tensor_list, input_tensor_list:
            refuse_list(tensors, dist.get_world_size(group))
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

    return all_to_all


def gpu_of_first(target: Any) -> GPU | None:
    """The GPU of a tensor; None for what is none, which torch refuses itself."""
    return gpu_of(target) if isinstance(target, Tensor) else None


def scale(target: Tensor, factor: float | Tensor) -> None:
    """Multiply `target` in place; an average of whole numbers is cut off, as NCCL does it."""
    if isinstance(factor, float) and not target.is_floating_point() and not target.is_complex():
        target.div_(round(1 / factor), rounding_mode="trunc")
    else:
        target.mul_(factor)


def make_coalescing(original: Callable) -> Callable:
    """`_coalescing_manager`: one by one where a device is named, which gloo cannot put together."""

    @contextlib.contextmanager
    def coalescing(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator:
        if device is not None and requested_backend(group):
            yield dist.distributed_c10d._CoalescingManager()
            return
        with original(group, device, async_ops) as manager:
            yield manager

    return coalescing


def factor_after(op: Any, group: Any) -> float | Tensor | None:
    """The factor that turns a sum into the result of `op`; None if gloo knows `op` itself."""
    if op is None:
        return None
    if op == dist.ReduceOp.AVG:
        return 1 / dist.get_world_size(group)
    return op.factor if op == dist.ReduceOp.PREMUL_SUM else None
