"""`torch.distributed` between simulated GPUs: gloo does the work of NCCL.

Gloo sees the CPU tensors that the GPUs' tensors are, so collectives keep every tag. What
NCCL refuses is refused here: a tensor on the CPU, tensors of one call on several GPUs.
"""

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.patching import Patches
from cudasim.session import session

NCCL_TIMEOUT = timedelta(minutes=10)  # torch's default_pg_nccl_timeout; gloo's is 30
NCCL_VERSION = (2, 27, 5)  # that of PyTorch's own builds for CUDA 12

# Functions between processes; those that come first take `op=`, and their first argument
# takes the result. Some are of newer versions of torch only.
REDUCTIONS = "all_reduce reduce reduce_scatter reduce_scatter_tensor reduce_scatter_single".split()
OTHERS = (
    "all_gather all_gather_into_tensor all_gather_single all_to_all all_to_all_single broadcast "
    "gather irecv isend recv scatter send"
).split()


def patch_distributed(patches: Patches) -> None:
    """Make `torch.distributed` accept the backend `nccl`; does nothing in a build without it."""
    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    functions = {
        "init_process_group": make_init(c10d.init_process_group),
        "new_group": make_new_group(c10d.new_group),
        "get_backend": make_get_backend(c10d.get_backend),
        "barrier": make_barrier(c10d.barrier),
    }
    for name in (*REDUCTIONS, *OTHERS):
        if hasattr(c10d, name):
            functions[name] = make_collective(getattr(c10d, name))
    functions["all_to_all"] = make_all_to_all(functions["all_to_all"])
    for name, function in functions.items():
        for module in (dist, c10d):
            patches.replace(module, name, function)
    patches.replace(c10d, "_get_object_coll_device", make_object_device(c10d))
    # Within distributed_c10d the answer stays no: yes there means a class that is not there.
    patches.replace(dist, "is_nccl_available", lambda: True)
    patches.replace(torch.cuda.nccl, "version", lambda: NCCL_VERSION)


def requested_backend(group: Any = None) -> str | None:
    """The backend requested for a group (None: the default one) that has NCCL, else None."""
    group = group or dist.group.WORLD
    return session.groups.get(group.group_name) if isinstance(group, dist.ProcessGroup) else None


def only_nccl(group: Any = None) -> bool:
    """True for a group (None: the default one) that would have no backend for the CPU."""
    requested = requested_backend(group)
    return requested is not None and "cpu" not in requested


def has_nccl(backend: Any) -> bool:
    """True for `nccl`, `cuda:nccl`, `cpu:gloo,cuda:nccl`: one gloo serves CPU and GPUs."""
    pairs = str(backend).lower().split(",")
    return "nccl" in [pair.split(":")[-1] for pair in pairs]


def bound_device(device: Any) -> GPU | None:
    """The GPU that `device_id=` names. Raises ValueError, in torch's words, if it cannot be."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None or device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= torch.cuda.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than "
            f"the number of accelerators available: {torch.cuda.device_count()}."
        )
    return resolve(device)


def make_init(original: Callable) -> Callable:
    """`init_process_group`: gloo where NCCL is requested, by name, by a device, or by default."""

    @functools.wraps(original)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        gpu = bound_device(kwargs.pop("device_id", None))
        if backend is None:  # torch takes that of the accelerator
            requested = "undefined" if gpu is None else "nccl"
        else:
            requested = str(backend).lower() if has_nccl(backend) else None
        if requested:
            backend = "gloo"
            kwargs.setdefault("timeout", NCCL_TIMEOUT)
            kwargs.pop("pg_options", None)  # NCCL's own
        session.groups.clear()
        original(backend, *args, **kwargs)
        if requested:
            session.groups[dist.group.WORLD.group_name] = requested

    return init_process_group


def make_new_group(original: Callable) -> Callable:
    """`new_group`: gloo where NCCL is requested, or was for the default group."""

    @functools.wraps(original)
    def new_group(
        ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        bound_device(kwargs.pop("device_id", None))
        requested = requested_backend() if backend is None else None
        if has_nccl(backend):
            requested = str(backend).lower()
        if requested:
            backend = "gloo"
            kwargs.pop("pg_options", None)
        group = original(ranks, timeout, backend, *args, **kwargs)
        if requested and isinstance(group, dist.ProcessGroup):
            session.groups[group.group_name] = requested
        return group

    return new_group


def make_get_backend(original: Callable) -> Callable:
    """`get_backend`: what was requested."""

    @functools.wraps(original)
    def get_backend(group: Any = None) -> str:
        found = original(group)
        requested = requested_backend(group)
        return dist.Backend(requested) if requested else found

    return get_backend


def make_barrier(original: Callable) -> Callable:
    """`barrier`: `device_ids` names GPUs, which gloo does not know."""

    @functools.wraps(original)
    def barrier(
        group: Any = None, async_op: bool = False, device_ids: Any = None, **kwargs: Any
    ) -> Any:
        return original(group, async_op, **kwargs)

    return barrier


def make_object_device(c10d: Any) -> Callable:
    """Where a group's collectives of objects send them: with NCCL, through a GPU."""
    original = c10d._get_object_coll_device

    def object_device(group: Any = None) -> str:
        return "cuda" if only_nccl(group) else original(group)

    return object_device


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
        if only_nccl(group) and any(gpu_of(tensor) is None for tensor in tensors_in(bound.args)):
            raise RuntimeError("No backend type associated with device type cpu")
        factor = factor_after(bound.arguments.get("op"), group)
        if factor is None:
            return original(*args, **kwargs)
        bound.arguments["op"] = dist.ReduceOp.SUM
        work = original(*bound.args, **bound.kwargs)
        if work is not None:
            work.wait()
        bound.args[0].mul_(factor)
        return work

    return collective


def make_all_to_all(original: Callable) -> Callable:
    """`all_to_all`, by `all_to_all_single` where gloo lacks it, as it does in torch 2.11."""

    @functools.wraps(original)
    def all_to_all(
        output_tensor_list: list[Tensor],
        input_tensor_list: list[Tensor],
        group: Any = None,
        async_op: bool = False,
    ) -> Any:
        try:
            return original(output_tensor_list, input_tensor_list, group, async_op)
        except RuntimeError as error:  # it is refused before anything is sent
            if "does not support alltoall" not in str(error) or not requested_backend(group):
                raise
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


def factor_after(op: Any, group: Any) -> float | Tensor | None:
    """The factor that turns a sum into the result of `op`; None if gloo knows `op` itself."""
    if op is None:
        return None
    if op == dist.ReduceOp.AVG:
        return 1 / dist.get_world_size(group)
    return op.factor if op == dist.ReduceOp.PREMUL_SUM else None


# The operators by which every collective goes, C++'s own in DistributedDataParallel too.
OPERATORS = (
    "allgather_ allgather_coalesced_ _allgather_base_ allgather_into_tensor_coalesced_ "
    "allreduce_ allreduce_coalesced_ alltoall_ alltoall_base_ broadcast_ gather_ recv_ "
    "recv_any_source_ reduce_ reduce_scatter_ _reduce_scatter_base_ "
    "reduce_scatter_tensor_coalesced_ scatter_ send"
).split()


# Of these NCCL compares numbers of elements only; gloo requires matching shapes as well.
FLAT = set()
if dist.is_available():
    FLAT |= {torch.ops.c10d._allgather_base_.default, torch.ops.c10d._reduce_scatter_base_.default}


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A collective: results go into tensors that have their tags, or are C++'s buckets."""
    tensors = tensors_in(args)
    found = {gpu_of(tensor) for tensor in tensors} - {None}
    if len(found) == 1:
        (gpu,) = found
        for tensor in tensors:
            if is_scratch(tensor):
                put(tensor, gpu)
    if func in FLAT and found and all(tensor.is_contiguous() for tensor in args[:2]):
        args = (*(tensor.view(-1) for tensor in args[:2]), *args[2:])
    return func(*args, **kwargs)


if dist.is_available():
    for _name in OPERATORS:
        if hasattr(torch.ops.c10d, _name):
            rule(getattr(torch.ops.c10d, _name).default)(operator)
