"""The operators by which every collective goes, C++'s own in DistributedDataParallel too."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map_only

from cudasim.backends.cuda.distributed import errors, rollcall
from cudasim.backends.cuda.distributed.clocks import book_collective
from cudasim.backends.cuda.distributed.fingerprints import Request, fingerprint, request_of, work_of
from cudasim.backends.cuda.distributed.refusals import FLOAT8, refuse
from cudasim.backends.cuda.distributed.rollcall import Arrival, Roll
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
PEERS = set()
UNEVEN = {}  # operator -> its arguments -> a tensor for each rank
if dist.is_available():
    UNEVEN[torch.ops.c10d.allgather_.default] = lambda args: args[0][0]
    UNEVEN[torch.ops.c10d.reduce_scatter_.default] = lambda args: args[1][0]
    PEERS |= {torch.ops.c10d.send.default, torch.ops.c10d.recv_.default}
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
        if func in PEERS:
            meet_peer(roll, request_of(func, args), gpu, args[2])
        elif func is torch.ops.c10d.barrier.default:
            gpu = roll.barrier_gpu or roll.bound or session.current()
            meet(roll, request_of(func, args), gpu)
        else:
            meet(roll, request_of(func, args), gpu)
        book_collective(roll, func, args, gpu and gpu.index)
    if gpu is not None:
        args = tree_map_only(Tensor, as_bytes, args)
    if func in FLAT and gpu and all(tensor.is_contiguous() for tensor in args[:2]):
        args = (*(tensor.view(-1) for tensor in args[:2]), *args[2:])
    if roll and func in UNEVEN and len({tensor.shape for tensor in UNEVEN[func](args)}) > 1:
        return one_by_one(func, group, args)
    return func(*args, **kwargs)


def one_by_one(func: Callable, group: dist.ProcessGroup, args: tuple) -> Any:
    """`all_gather` and `reduce_scatter` of parts that differ in size, as PyTorch does it for NCCL.

    The part of each rank is a broadcast from that rank, or a reduction to it.
    """
    parts = UNEVEN[func](args)
    gathers = func is torch.ops.c10d.allgather_.default
    mine = args[1][0] if gathers else args[0][0]
    process_group = next(item for item in args if isinstance(item, torch.ScriptObject))
    for root, part in enumerate(parts):
        if gathers:
            if root == group.rank():
                part.copy_(mine)
            _, work = torch.ops.c10d.broadcast_([part], process_group, root, 0, True, -1)
        else:
            part = part.clone()
            work = torch.ops.c10d.reduce_([part], process_group, args[3], root, 0, True, -1)
        dist.Work.unbox(work).wait()
        if not gathers and root == group.rank():
            mine.copy_(part)
    return args[0], work


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


def meet(roll: Roll, request: Request, gpu: GPU | None) -> None:
    """Wait until every rank of the group comes to the collective, and compare what they ask for.

    Raises DistBackendError for ranks that share a GPU, disagree, are missing or have ended.
    """
    if roll.size == 1 or not rollcall.wanted():
        return
    card = None if gpu is None else gpu.number
    arrival = roll.arrival(card, *fingerprint(request, roll.count))
    arrivals = roll.call(arrival, work_of(request, roll.count + 1))
    compare_cards(roll, dict(enumerate(arrivals)))
    compare_requests(roll, arrivals)


def meet_peer(roll: Roll, request: Request, gpu: GPU | None, peer: int) -> None:
    """Wait for the rank `peer` at the first send or recv with it, and compare the GPUs.

    With `init_process_group(device_id=)` they have been compared. Raises as `meet` does.
    """
    if gpu is None or roll.bound is not None or not rollcall.wanted():
        return
    mine = roll.arrival(gpu.number, [], "")
    theirs = roll.introduce(mine, peer, work_of(request, 1))
    if theirs is not None:
        compare_cards(roll, {roll.rank: mine, peer: theirs})
        roll.introduced[mine.card].add(peer)


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
