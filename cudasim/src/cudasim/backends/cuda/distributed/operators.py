"""The operators by which every collective goes, C++'s own in DistributedDataParallel too."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of, is_scratch, put

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
