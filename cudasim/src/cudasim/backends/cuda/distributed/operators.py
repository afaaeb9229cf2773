"""The operators by which every collective goes, C++'s own in DistributedDataParallel too.

The functional collectives, with which DTensor and compiled programs communicate, call them in
C++, where no dispatch mode sees it: these are checked and booked in the same way here.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map_only

from cudasim.backends.cuda.distributed.clocks import book
from cudasim.backends.cuda.distributed.refusals import (
    CPU,
    DEVICES,
    FLOAT8,
    Call,
    refuse,
    refuse_reduction,
)
from cudasim.backends.cuda.distributed.rollcall import Request
from cudasim.backends.cuda.distributed.table import COLLECTIVES, Collective, kind_of
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.placement import run
from cudasim.dispatch.rules import rule
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A collective: results go into tensors that have their tags, or are C++'s buckets."""
    name = func._schema.name.removeprefix("c10d::")
    collective, tensors = COLLECTIVES[name], tensors_in(args)
    gpu = settle_buckets(tensors)
    boxed = next(item for item in args if isinstance(item, torch.ScriptObject))
    group = dist.ProcessGroup.unbox(boxed)
    roll = session.rolls.get(group.group_name)
    if roll is not None:
        if name == "barrier":
            gpu, tensors = roll.barrier_gpu or roll.bound or session.current(), []  # C++'s own
        elif gpu is not None:
            refuse(Call(name, collective, args, tensors, roll.size, roll.bound))
        root = None if collective.root is None else args[collective.root]
        request = Request(kind_of(name), tensors, argument(args, collective.compared), root)
        peer = args[2] if collective.word in ("send", "recv") else None
        if peer is None:
            roll.meet(request, gpu)
        else:
            roll.meet_peer(request, gpu, peer)
        if gpu is not None:
            size = bytes_of(argument(args, collective.moved))
            book(roll, collective, gpu.index, size, asynchronous(func, args), peer)
    if gpu is not None:
        args = tree_map_only(Tensor, as_bytes, args)
    if collective.flat and gpu and all(tensor.is_contiguous() for tensor in args[:2]):
        # NCCL compares numbers of elements only; gloo requires matching shapes as well.
        args = (*(tensor.view(-1) for tensor in args[:2]), *args[2:])
    if roll and collective.each is not None and not collective.pairwise:
        parts = argument(args, collective.each)
        if len({part.shape for part in parts}) > 1:
            return one_by_one(collective, boxed, group.rank(), parts, args)
    return func(*args, **kwargs)


def one_by_one(
    collective: Collective, group: torch.ScriptObject, rank: int, parts: list[Tensor], args: tuple
) -> Any:
    """`all_gather` and `reduce_scatter` of parts that differ in size, as PyTorch does it for NCCL.

    The part of each rank is a broadcast from that rank, or a reduction to it.
    """
    mine = tensors_in(args[:2])[-1 if not collective.adds else 0]
    for root, part in enumerate(parts):
        if collective.adds:
            part = part.clone()
            work = torch.ops.c10d.reduce_([part], group, args[3], root, 0, True, -1)
        else:
            if root == rank:
                part.copy_(mine)
            _, work = torch.ops.c10d.broadcast_([part], group, root, 0, True, -1)
        dist.Work.unbox(work).wait()
        if collective.adds and root == rank:
            mine.copy_(part)
    return args[0], work


def argument(args: tuple, place: int | None) -> list[Tensor]:
    """The tensors of one argument; none for None."""
    return [] if place is None else tensors_in((args[place],))


def bytes_of(tensors: list[Tensor]) -> int:
    """How many bytes the elements of all `tensors` are."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def asynchronous(func: Callable, args: tuple) -> bool:
    """Whether it runs on NCCL's own stream: unless it was asked for without `async_op`."""
    for parameter, value in zip(func._schema.arguments, args, strict=False):
        if parameter.name == "async_op":
            return bool(value)
    return True


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


def functional(name: str, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A functional collective: checked as its operator `name` of `torch.ops.c10d` is, then run.

    An average is a sum and a division, as gloo has none.
    """
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
    group, collective = given["group_name"], COLLECTIVES[name]
    roll = session.rolls.get(getattr(group, "group_name", group))
    tensors, op = tensors_in((args[0],)), given.get("reduce_op")
    gpu = gpu_of(tensors[0])
    if roll is not None and gpu is None and "cpu" not in roll.requested:
        raise RuntimeError(CPU)
    checked = roll is not None and gpu is not None
    if checked:
        refuse(Call(name, collective, args, tensors, roll.size, roll.bound), DEVICES)
        if op is not None:
            refuse_reduction(op, tensors[0].dtype)
        compared = [] if collective.compared is None else tensors
        roll.meet(Request(kind_of(name), tensors, compared, given.get("src")), gpu)
        gathered = roll.size if collective.word == "all_gather" else 1
        book(roll, collective, gpu.index, bytes_of(tensors) * gathered, False)
    if not checked or op != "avg":
        return run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    args = tuple("sum" if value is op else value for value in args)
    out = run(func, args, kwargs, tensors_in((*args, *kwargs.values())))
    for tensor in tensors_in((out,)):
        torch.ops._c10d_functional.wait_tensor(tensor).div_(roll.size)
    return out


for _name, _collective in COLLECTIVES.items():
    if hasattr(torch.ops.c10d, _name):
        rule(getattr(torch.ops.c10d, _name).default)(operator)
    for _functional in _collective.functional.split():
        if hasattr(torch.ops._c10d_functional, _functional):
            _func = getattr(torch.ops._c10d_functional, _functional).default
            rule(_func)(functools.partial(functional, _name))
