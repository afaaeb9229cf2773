"""The operators by which every collective goes, C++'s own in DistributedDataParallel too."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map_only

from cudasim.backends.cuda.distributed import errors, rollcall
from cudasim.backends.cuda.distributed.fingerprints import fingerprint, work_of
from cudasim.backends.cuda.distributed.refusals import FLOAT8, refuse
from cudasim.backends.cuda.distributed.rollcall import Arrival, Roll
from cudasim.config import physical
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session

OPERATORS = (
    "allgather_ allgather_coalesced_ _allgather_base_ allgather_into_tensor_coalesced_ "
    "allreduce_ allreduce_coalesced_ alltoall_ alltoall_base_ barrier broadcast_ gather_ recv_ "
    "recv_any_source_ reduce_ reduce_scatter_ _reduce_scatter_base_ "
    "reduce_scatter_tensor_coalesced_ scatter_ send"
).split()

# Of these NCCL compares numbers of elements only; gloo requires matching shapes as well.
FLAT = set()
if dist.is_available():
    FLAT |= {torch.ops.c10d._allgather_base_.default, torch.ops.c10d._reduce_scatter_base_.default}


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A collective: results go into tensors that have their tags, or are C++'s buckets."""
    gpu = settle_buckets(tensors_in(args))
    group = next(
        dist.ProcessGroup.unbox(item) for item in args if isinstance(item, torch.ScriptObject)
    )
    roll = session.rolls.get(group.group_name)
    if roll is not None:
        refuse(func, args, roll.size, roll.bound)
        if roll.size > 1 and rollcall.wanted():
            meet(roll, func, args, gpu)
    if gpu is not None:
        args = tree_map_only(Tensor, as_bytes, args)
    if func in FLAT and gpu and all(tensor.is_contiguous() for tensor in args[:2]):
        args = (*(tensor.view(-1) for tensor in args[:2]), *args[2:])
    return func(*args, **kwargs)


def settle_buckets(tensors: list[Tensor]) -> GPU | None:
    """Tag C++'s buckets among `tensors` as their company is; returns that GPU."""
    found = {gpu_of(tensor) for tensor in tensors} - {None}
    if len(found) != 1:
        return next(iter(found), None)
    (gpu,) = found
    for tensor in tensors:
        if is_scratch(tensor):
            put(tensor, gpu)
    return gpu


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a tensor of a type that NCCL sends and gloo does not know."""
    return tensor.view(torch.uint8) if tensor.dtype in FLOAT8 else tensor


def meet(roll: Roll, func: Callable, args: tuple, gpu: GPU | None) -> None:
    """Wait until every rank of the group comes to the collective, and compare what they ask for.

    Of a send and a recv only the first between two ranks is compared. Raises DistBackendError
    for ranks that share a GPU, disagree, are missing or have ended.
    """
    name = func._schema.name.removeprefix("c10d::")
    if name == "barrier":
        gpu = roll.barrier_gpu or roll.bound or session.current()
    card = None if gpu is None else physical(gpu.index)
    work = work_of(func, args, roll.count + 1)
    if name in ("send", "recv_"):
        if card is not None and roll.bound is None:
            mine = roll.arrival(card, [], "")
            theirs = roll.introduce(mine, args[2], work)
            if theirs is not None:
                compare_cards(roll, {roll.rank: mine, args[2]: theirs})
        return
    if name == "recv_any_source_":
        return
    arrivals = roll.call(roll.arrival(card, *fingerprint(func, args, roll.count)), work)
    compare_cards(roll, dict(enumerate(arrivals)))
    compare_requests(roll, arrivals)


def compare_cards(roll: Roll, arrivals: dict[int, Arrival]) -> None:
    """Raise NCCL's error if this rank shares its GPU with another one of `arrivals`."""
    mine = arrivals[roll.rank]
    for rank, theirs in arrivals.items():
        same = mine.card is not None and theirs[:3:2] == mine[:3:2]  # host and card
        if rank != roll.rank and same:
            names = roll.ranks[roll.rank], roll.ranks[rank]
            raise errors.duplicate(*names, mine.card, len(session.gpus))


def compare_requests(roll: Roll, arrivals: list[Arrival]) -> None:
    """Raise DistBackendError, the same on every rank, if they do not ask for the same."""
    if any(arrival.key != arrivals[0].key for arrival in arrivals):
        raise errors.mismatch([arrival.text for arrival in arrivals], roll.ranks, roll.timeout)


if dist.is_available():
    for _name in OPERATORS:
        if hasattr(torch.ops.c10d, _name):
            rule(getattr(torch.ops.c10d, _name).default)(operator)
