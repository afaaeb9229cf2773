"""The operators by which every collective goes, C++'s own in DistributedDataParallel too.

DTensor and compiled programs communicate with the functional collectives. These call the
operators in C++, where no dispatch mode sees them: so they are checked and booked in the
same way here.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import refusals
from cudasim.backends.cuda.distributed.clocks import book
from cudasim.backends.cuda.distributed.rollcall import Request, Roll
from cudasim.backends.cuda.distributed.table import COLLECTIVES, PAIRWISE, Collective
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import arguments_by_name, tensors_in
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import run
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session
from cudasim.torch_private.distributed import functional_operators
from cudasim.torch_private.operators import schema_of, tree_map_only


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a collective: results go into tensors that have their tags, or C++'s buckets."""
    name = schema_of(func).name.removeprefix("c10d::")
    collective = COLLECTIVES[name]
    arguments = arguments_by_name(func, args, kwargs)
    tensors = tensors_in(args)
    gpu = _common_gpu(tensors)

    group = dist.ProcessGroup.unbox(arguments["process_group"])
    roll = session.rolls.get(group.group_name)
    if roll is not None:
        if name == "barrier":
            gpu = roll.barrier_gpu or roll.bound_gpu or session.current()
            tensors = []  # there is one of C++'s own
        elif gpu is not None:
            refusals.refuse_devices(name, tensors, roll.bound_gpu)
            refusals.refuse_layouts(name, args, tensors, roll.size)
            refusals.refuse_types(collective.word, tensors)
        peer = arguments.get("dst", arguments.get("src"))
        compared = _tensors_at(args, collective.compared)
        root = arguments.get("root_rank")
        request = Request(_kind(name), tensors, compared, root)
        if peer is not None:
            roll.meet_peer(request, gpu, peer)
        elif name != "recv_any_source_":
            roll.meet(request, gpu)
        if gpu is not None:
            size = sum(tensor.nbytes for tensor in _tensors_at(args, collective.moved))
            own = arguments.get("async_op", True)
            book(roll, collective.word, gpu.index, size, own, peer)

    if gpu is not None:
        args = _for_gloo(name, args)
    if roll is not None and _parts_differ(collective, args):
        return one_by_one(collective, args, group.rank())
    return func(*args, **kwargs)


def _common_gpu(tensors: list[Tensor]) -> GPU | None:
    """Return the GPU of a collective's tensors: the first, if there are several.

    C++'s buckets, which have none yet, are put where the others are.
    """
    gpus = {gpu_of(tensor) for tensor in tensors} - {None}
    gpu = next(iter(gpus), None)
    if len(gpus) == 1:
        for tensor in filter(is_scratch, tensors):
            put(tensor, gpu)
    return gpu


def _kind(name: str) -> str:
    """Return what PyTorch's messages call an operator: `_ALLGATHER_BASE`."""
    return name.removesuffix("_").upper()


def _tensors_at(args: tuple, position: int | None) -> list[Tensor]:
    return [] if position is None else tensors_in((args[position],))


def _for_gloo(name: str, args: tuple) -> tuple:
    """Return arguments that gloo takes where NCCL would."""
    args = tree_map_only(Tensor, _as_bytes, args)
    if name in refusals.FLAT and all(tensor.is_contiguous() for tensor in args[:2]):
        # NCCL compares numbers of elements only; gloo requires matching shapes as well.
        first, second, *rest = args
        args = (first.view(-1), second.view(-1), *rest)
    return args


def _as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor of a type that NCCL sends and gloo does not know."""
    return tensor.view(torch.uint8) if tensor.dtype in refusals.FLOAT8 else tensor


def _parts_differ(collective: Collective, args: tuple) -> bool:
    """Tell whether the list with a tensor for each rank has tensors of several shapes."""
    if collective.parts is None or collective.word in PAIRWISE:
        return False
    parts = _tensors_at(args, collective.parts)
    return len({part.shape for part in parts}) > 1


def one_by_one(collective: Collective, args: tuple, rank: int) -> Any:
    """Run a collective whose parts differ in size.

    As PyTorch does it for NCCL, it is a broadcast or a reduction for each rank.
    """
    parts = _tensors_at(args, collective.parts)
    (mine,) = _tensors_at(args, 1 - collective.parts)
    group = args[2]
    is_reduction = collective.word == "reduce_scatter"
    for root, part in enumerate(parts):
        if is_reduction:
            part = part.clone()
            work = torch.ops.c10d.reduce_([part], group, args[3], root, 0, True, -1)
        else:
            if root == rank:
                part.copy_(mine)
            _, work = torch.ops.c10d.broadcast_([part], group, root, 0, True, -1)
        dist.Work.unbox(work).wait()
        if is_reduction and root == rank:
            mine.copy_(part)
    return args[0], work


def functional(name: str, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a functional collective, checked as its operator `name` is."""
    arguments = arguments_by_name(func, args, kwargs)
    tensors = tensors_in(args[:1])
    gpu = gpu_of(tensors[0])
    group = arguments["group_name"]
    roll = session.rolls.get(getattr(group, "group_name", group))
    if roll is not None and gpu is None and roll.only_nccl:
        raise RuntimeError(refusals.CPU)
    if roll is None or gpu is None:
        return _run(func, args, kwargs)

    op = arguments.get("reduce_op")
    _announce(name, roll, gpu, tensors, op, arguments.get("src"))
    if op != "avg":
        return _run(func, args, kwargs)
    # Gloo has no average: it is a sum and a division.
    args = tuple("sum" if value is op else value for value in args)
    out = _run(func, args, kwargs)
    for tensor in tensors_in((out,)):
        functional_operators.wait_tensor(tensor).div_(roll.size)
    return out


def _announce(
    name: str, roll: Roll, gpu: GPU, tensors: list[Tensor], op: Any, root: Any
) -> None:
    """Check a functional collective, meet the other ranks, and book it."""
    collective = COLLECTIVES[name]
    refusals.refuse_devices(name, tensors, roll.bound_gpu)
    refusals.refuse_types(collective.word, tensors)
    if op is not None:
        refusals.refuse_reduction(op, tensors[0].dtype)
    compared = [] if collective.compared is None else tensors
    roll.meet(Request(_kind(name), tensors, compared, root), gpu)

    size = sum(tensor.nbytes for tensor in tensors)
    if collective.word == "all_gather":
        size *= roll.size
    book(roll, collective.word, gpu.index, size, own=False)


def _run(func: Callable, args: tuple, kwargs: dict) -> Any:
    return run(func, args, kwargs, tensors_in((*args, *kwargs.values())))


def _functional_name(name: str, collective: Collective) -> str:
    """Return the functional collective's name: that of the first function, if any.

    Else it is the operator's, in which `all` stands apart.
    """
    first_function = collective.functions.split(" ")[0]
    return first_function or re.sub("^all(?!_)", "all_", name.rstrip("_"))


for _name, _collective in COLLECTIVES.items():
    rule(getattr(torch.ops.c10d, _name).default)(operator)
    for _form in ("", "_", "_out"):
        _func_name = _functional_name(_name, _collective) + _form
        _func = getattr(functional_operators, _func_name, None)
        if _func is not None:
            rule(_func.default)(functools.partial(functional, _name))
