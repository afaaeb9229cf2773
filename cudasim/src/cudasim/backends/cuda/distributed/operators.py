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

from cudasim.backends.cuda.distributed import reductions, refusals
from cudasim.backends.cuda.distributed.clocks import book
from cudasim.backends.cuda.distributed.rollcall import Request, Roll
from cudasim.backends.cuda.distributed.table import COLLECTIVES, PAIRWISE, Collective
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import arguments_by_name, tensors_in
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import run
from cudasim.dispatch.scratch import is_called_by_engine
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session
from cudasim.torch_private.dispatch import DispatchKey, DispatchKeySet
from cudasim.torch_private.distributed import finished_work, functional_operators
from cudasim.torch_private.operators import schema_of, tree_map_only

wait = dist.Work.wait  # PyTorch's own: the virtual clock does not see it
SPARSE_KEYS = DispatchKeySet(DispatchKey.SparseCUDA)
# Those whose tensors are flattened: NCCL compares no shapes.
FLATTENED = (
    *refusals.FLAT,
    "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced_",
)


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a collective: results go into tensors that have their tags, or C++'s buckets."""
    name = schema_of(func).name.removeprefix("c10d::")
    arguments = arguments_by_name(func, args, kwargs)
    tensors = tensors_in(args)
    gpu = _common_gpu(tensors)
    group = dist.ProcessGroup.unbox(arguments["process_group"])
    roll = session.rolls.get(group.group_name)
    if roll is not None:
        if name == "barrier":
            gpu = _gpu_of_barrier(roll)
            tensors = []  # there is one of C++'s own
        else:
            _check(name, func, args, tensors, gpu, roll)
        _announce(name, args, arguments, tensors, gpu, roll)
    if roll is None or gpu is None:
        return func(*args, **kwargs)

    run = functools.partial(_run_by_gloo, name, func, kwargs, roll)
    if COLLECTIVES[name].word in ("send", "recv"):
        return run(args)
    targets = tensors_in(args[:1])
    if "reduce_op" not in arguments:
        return completed(name, run(args), targets)
    if name == "reduce_" and roll.rank != arguments["root_rank"]:
        # Gloo uses the tensor for what it has added so far, but NCCL only reads it.
        args = ([tensor.clone() for tensor in args[0]], *args[1:])
    return completed(name, reductions.reduce(run, args), targets)


def _check(
    name: str,
    func: Callable,
    args: tuple,
    tensors: list[Tensor],
    gpu: GPU | None,
    roll: Roll,
) -> None:
    """Refuse what NCCL, or PyTorch's group for it, refuses."""
    if gpu is None:
        # C++'s own tensors have no device yet: it takes that of the parameters.
        is_own = all(map(is_scratch, tensors)) or is_called_by_engine()
        if roll.only_nccl and not is_own:
            raise RuntimeError(refusals.CPU)
        return
    stream = session.stream_key(gpu.index)
    if roll.size > 1 and session.capturing.get(stream) is not None:
        raise NotImplementedError("cudasim: a CUDA graph here holds no collectives")
    refusals.refuse_operators(name, tensors)
    if tensors[0].is_sparse:  # the dispatcher has no kernel for it
        func.redispatch(SPARSE_KEYS, *args)
    refusals.refuse_devices(tensors, roll.bound_gpu)
    refusals.refuse_layouts(name, args, tensors, roll.size)
    refusals.refuse_types(name, tensors, gpu)
    if "reduce" in COLLECTIVES[name].word:
        refusals.refuse_reduction(reductions.thread.op, tensors[0].dtype)


def _announce(
    name: str,
    args: tuple,
    arguments: dict[str, Any],
    tensors: list[Tensor],
    gpu: GPU | None,
    roll: Roll,
) -> None:
    """Meet the other ranks, and book the collective."""
    collective = COLLECTIVES[name]
    compared = _tensors_at(args, collective.compared)
    request = Request(_kind(name), tensors, compared, arguments.get("root_rank"))
    peer = arguments.get("dst", arguments.get("src"))
    if gpu is not None:
        roll.used_gpus.add(gpu.index)
    if peer is None:
        roll.meet(request, gpu)
    elif peer != roll.rank:
        roll.meet_peer(request, gpu, peer)
    if gpu is not None:
        size = sum(tensor.nbytes for tensor in _tensors_at(args, collective.moved))
        own = arguments.get("async_op", True)
        book(roll, collective.word, gpu.index, size, own, peer)


def _gpu_of_barrier(roll: Roll) -> GPU:
    """Return the GPU on which NCCL makes the tensor of a barrier.

    It is that of `device_ids`, the one to which the process is bound, the first that has
    been used, or the one with the rank's own number (`guessDeviceId` in
    ProcessGroupNCCL.cpp).
    """
    gpu = roll.barrier_gpu or roll.bound_gpu
    if gpu is not None:
        return gpu
    guessed = roll.ranks[roll.rank] % len(session.gpus)
    return session.gpu(min(roll.used_gpus, default=guessed))


def refuse_monitored_barrier(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a barrier that only gloo has, by its backend for the CPU."""
    group = dist.ProcessGroup.unbox(args[1])
    roll = session.rolls.get(group.group_name)
    if roll is not None and roll.only_nccl:
        raise RuntimeError(refusals.CPU)
    return func(*args, **kwargs)


def _run_by_gloo(
    name: str, func: Callable, kwargs: dict, roll: Roll, args: tuple
) -> Any:
    """Let gloo do the work of NCCL."""
    collective = COLLECTIVES[name]
    if collective.word in ("send", "recv") and args[2] == roll.rank:
        return roll.messages_to_self.pass_on(collective.word, args[0][0])
    args = _for_gloo(name, args)
    if name == "alltoall_":
        return all_to_all(args)
    if _parts_differ(collective, args):
        return one_by_one(collective, args, roll.rank)
    out = func(*args, **kwargs)
    if collective.word not in ("send", "recv"):
        wait(work_of(out))
    return out


def work_of(out: Any) -> dist.Work:
    """Return the work among the results of an operator of `torch.ops.c10d`."""
    return dist.Work.unbox(out[-1] if isinstance(out, tuple) else out)


def completed(name: str, out: Any, targets: list[Tensor]) -> Any:
    """Return the results of an operator with a work that is done and holds `targets`.

    NCCL's work is done for the host as soon as it is enqueued, so what a program asks for
    with `then` runs at once, in the same order on all ranks. Gloo would run it in threads.
    """
    if name == "allreduce_" and targets[0].is_contiguous():
        return out  # what C++'s hooks of gradients expect, with these very tensors
    work = finished_work(targets)
    return (out[0], work) if isinstance(out, tuple) else work


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
    """Return arguments that gloo takes where NCCL would.

    NCCL reads and writes numbers as they lie in memory, and only counts them. Gloo
    requires contiguous tensors, and compares shapes.
    """
    args = tree_map_only(Tensor, _as_bytes, args)
    if name == "allgather_":  # PyTorch copies these itself
        return ([*args[0]], [args[1][0].contiguous()], *args[2:])
    if name == "reduce_scatter_":
        return args
    tensors = tensors_in(args)
    if name in FLATTENED or not all(tensor.is_contiguous() for tensor in tensors):
        keeps_rows = name == "alltoall_base_"
        flatten = functools.partial(_in_memory_order, keeps_rows=keeps_rows)
        return tree_map_only(Tensor, flatten, args)
    return args


def _as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor of a type that NCCL sends and gloo does not know."""
    return tensor.view(torch.uint8) if tensor.dtype in refusals.FLOAT8 else tensor


def _in_memory_order(tensor: Tensor, keeps_rows: bool) -> Tensor:
    """Return the same numbers in one dimension, in the order in which they lie in memory.

    With `keeps_rows` they keep their first dimension.
    """
    rows = tensor.shape[:1] if keeps_rows else ()
    if not tensor.is_contiguous():
        # The storage may be too small for a tensor that is expanded.
        last = tensor.storage_offset() + tensor.numel()
        if last * tensor.element_size() > tensor.untyped_storage().nbytes():
            return tensor
        tensor = tensor.as_strided((tensor.numel(),), (1,))
    return tensor.view(*rows, -1)


def _parts_differ(collective: Collective, args: tuple) -> bool:
    """Tell whether the list with a tensor for each rank has tensors of several shapes."""
    if collective.parts is None or collective.word in PAIRWISE:
        return False
    parts = _tensors_at(args, collective.parts)
    return len({part.shape for part in parts}) > 1


def all_to_all(args: tuple) -> Any:
    """Run `alltoall_` by `alltoall_base_`: gloo takes no parts that differ in size."""
    outputs, inputs, group = args[:3]
    input_sizes = [tensor.numel() for tensor in inputs]
    output_sizes = [tensor.numel() for tensor in outputs]
    sent = torch.cat([tensor.reshape(-1) for tensor in inputs])
    received = sent.new_empty(sum(output_sizes))
    work = torch.ops.c10d.alltoall_base_(
        received, sent, group, output_sizes, input_sizes
    )
    wait(work_of(work))
    for target, part in zip(outputs, received.split(output_sizes), strict=True):
        target.copy_(part.view_as(target))
    return outputs, work


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
        wait(dist.Work.unbox(work))
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
    _announce_functional(name, roll, gpu, tensors, op, arguments.get("src"))
    if op != "avg":
        return _run(func, args, kwargs)
    return _average(func, args, kwargs, roll.size)


def _average(func: Callable, args: tuple, kwargs: dict, size: int) -> Any:
    """Run a functional collective that averages: gloo adds up."""
    operands = tensors_in((*args, *kwargs.values()))
    sources = tensors_in(args[:1])
    new_args = ["sum" if value == "avg" else value for value in args]
    if schema_of(func).name.endswith("_"):
        reductions.scale_in_place(sources, "avg", size)
    else:
        new_args[0] = reductions.scaled(args[0], "avg", size)
    out = run(func, tuple(new_args), kwargs, operands)
    if not reductions.is_inexact(sources[0]):
        results = tensors_in((out,))
        for result in results:
            functional_operators.wait_tensor(result)
        reductions.divide(results, "avg", size)
    return out


def _announce_functional(
    name: str, roll: Roll, gpu: GPU, tensors: list[Tensor], op: Any, root: Any
) -> None:
    """Check a functional collective, meet the other ranks, and book it."""
    collective = COLLECTIVES[name]
    refusals.refuse_devices(tensors, roll.bound_gpu)
    refusals.refuse_types(name, tensors, gpu)
    if op is not None:
        refusals.refuse_reduction(op, tensors[0].dtype)
    compared = [] if collective.compared is None else tensors
    roll.used_gpus.add(gpu.index)
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
rule(torch.ops.c10d.monitored_barrier_.default)(refuse_monitored_barrier)
