"""The operators by which every collective goes, C++'s own in DistributedDataParallel too. The
functional collectives, with which DTensor and compiled programs communicate, call them in C++,
where no dispatch mode sees it: these are checked and booked in the same way here."""

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map_only

from cudasim.backends.cuda.distributed import refusals
from cudasim.backends.cuda.distributed.clocks import book
from cudasim.backends.cuda.distributed.rollcall import Request
from cudasim.backends.cuda.distributed.table import COLLECTIVES, PAIRWISE, Collective
from cudasim.dispatch.arguments import arguments_by_name, tensors_in
from cudasim.dispatch.placement import run
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A collective: results go into tensors that have their tags, or are C++'s buckets."""
    name = func._schema.name.removeprefix("c10d::")
    collective, named, tensors = (
        COLLECTIVES[name],
        arguments_by_name(func, args, kwargs),
        tensors_in(args),
    )
    gpus = {gpu_of(tensor) for tensor in tensors} - {None}
    gpu = next(iter(gpus), None)
    if len(gpus) == 1:  # C++'s buckets are where their company is
        for tensor in filter(is_scratch, tensors):
            put(tensor, gpu)
    group = dist.ProcessGroup.unbox(named["process_group"])
    roll = session.rolls.get(group.group_name)
    if roll is not None:
        if name == "barrier":
            gpu, tensors = (
                roll.barrier_gpu or roll.bound or session.current(),
                [],
            )  # C++'s own
        elif gpu is not None:
            refusals.refuse_devices(name, tensors, roll.bound)
            refusals.refuse_layouts(name, args, tensors, roll.size)
            refusals.refuse_types(collective.word, tensors)
        compared = argument(args, collective.compared)
        kind = name.removesuffix(
            "_"
        ).upper()  # as PyTorch's messages have it: `_ALLGATHER_BASE`
        request = Request(kind, tensors, compared, named.get("root_rank"))
        peer = named.get("dst", named.get("src"))
        if peer is not None:
            roll.meet_peer(request, gpu, peer)
        elif name != "recv_any_source_":
            roll.meet(request, gpu)
        if gpu is not None:
            size = sum(tensor.nbytes for tensor in argument(args, collective.moved))
            book(
                roll,
                collective.word,
                gpu.index,
                size,
                named.get("async_op", True),
                peer,
            )
    if gpu is not None:
        args = tree_map_only(Tensor, as_bytes, args)
    if (
        name in refusals.FLAT
        and gpu
        and all(tensor.is_contiguous() for tensor in args[:2])
    ):
        # NCCL compares numbers of elements only; gloo requires matching shapes as well.
        args = (*(tensor.view(-1) for tensor in args[:2]), *args[2:])
    if roll and collective.parts is not None and collective.word not in PAIRWISE:
        parts = argument(args, collective.parts)
        if len({part.shape for part in parts}) > 1:
            return one_by_one(collective, parts, args, group.rank())
    return func(*args, **kwargs)


def one_by_one(
    collective: Collective, parts: list[Tensor], args: tuple, rank: int
) -> Any:
    """Parts that differ in size: as PyTorch does it for NCCL, a broadcast or a reduction a rank."""
    (mine,), group = argument(args, 1 - collective.parts), args[2]
    adds = collective.word == "reduce_scatter"
    for root, part in enumerate(parts):
        if adds:
            part = part.clone()
            work = torch.ops.c10d.reduce_([part], group, args[3], root, 0, True, -1)
        else:
            if root == rank:
                part.copy_(mine)
            _, work = torch.ops.c10d.broadcast_([part], group, root, 0, True, -1)
        dist.Work.unbox(work).wait()
        if adds and root == rank:
            mine.copy_(part)
    return args[0], work


def argument(args: tuple, place: int | None) -> list[Tensor]:
    return [] if place is None else tensors_in((args[place],))


def as_bytes(tensor: Tensor) -> Tensor:
    """The bytes of a tensor of a type that NCCL sends and gloo does not know."""
    return tensor.view(torch.uint8) if tensor.dtype in refusals.FLOAT8 else tensor


def functional(name: str, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A functional collective: checked as its operator `name` of `torch.ops.c10d` is, then run."""
    collective, named, tensors = (
        COLLECTIVES[name],
        arguments_by_name(func, args, kwargs),
        tensors_in(args[:1]),
    )
    group, op, gpu = named["group_name"], named.get("reduce_op"), gpu_of(tensors[0])
    roll = session.rolls.get(getattr(group, "group_name", group))
    if roll is not None and gpu is None and roll.only_nccl:
        raise RuntimeError(refusals.CPU)
    averages = roll is not None and gpu is not None and op == "avg"
    if roll is not None and gpu is not None:
        refusals.refuse_devices(name, tensors, roll.bound)
        refusals.refuse_types(collective.word, tensors)
        if op is not None:
            refusals.refuse_reduction(op, tensors[0].dtype)
        compared = [] if collective.compared is None else tensors
        roll.meet(
            Request(
                name.removesuffix("_").upper(), tensors, compared, named.get("src")
            ),
            gpu,
        )
        gathered = roll.size if collective.word == "all_gather" else 1
        size = sum(tensor.nbytes for tensor in tensors) * gathered
        book(roll, collective.word, gpu.index, size, False)
    if averages:
        args = tuple("sum" if value is op else value for value in args)
    out = run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    if averages:
        for tensor in tensors_in((out,)):
            torch.ops._c10d_functional.wait_tensor(tensor).div_(roll.size)
    return out


for _name, _collective in COLLECTIVES.items():
    rule(getattr(torch.ops.c10d, _name).default)(operator)
    # Functional ones have the name of the first function, or that of the operator, `all` apart.
    _named = _collective.functions.split(" ")[0] or re.sub(
        "^all(?!_)", "all_", _name.rstrip("_")
    )
    for _form in ("", "_", "_out"):
        if _func := getattr(torch.ops._c10d_functional, _named + _form, None):
            rule(_func.default)(functools.partial(functional, _name))
