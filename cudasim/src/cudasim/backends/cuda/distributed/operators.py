"""The operators by which every collective goes, C++'s own in DistributedDataParallel too.

DTensor and compiled programs communicate with the functional collectives. These call the
operators in C++, where no dispatch mode sees them: so they are checked and booked in the
same way here.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import logs, reductions, refusals
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
from cudasim.torch_private.distributed import (
    finished_work,
    functional_operators,
    resolve_group,
)
from cudasim.torch_private.operators import schema_of, tree_map_only

# An environment variable: whether to warn of messages outside of a batch.
SERIALIZATION_WARNING = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"
wait = dist.Work.wait  # PyTorch's own: the virtual clock does not see it
# That of all messages between GPUs. NCCL knows no tags, and matches the messages of two ranks
# in their order. Tensors on the CPU have gloo's own, in the same group.
TAG = 2**31 - 1
SPARSE_KEYS = DispatchKeySet(DispatchKey.SparseCUDA)
QUANTIZED_KEYS = DispatchKeySet(DispatchKey.QuantizedCUDA)
# Those whose tensors are flattened: NCCL compares no shapes.
FLATTENED = (
    *refusals.FLAT,
    "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced_",
)

# Those that may have parts of several shapes (`check_same_size` in ProcessGroupWrapper.cpp).
VARYING = ("all_gather", "reduce_scatter")


class Call(NamedTuple):
    """What one collective is asked for on this rank."""

    name: str  # of the operator of `torch.ops.c10d`
    tensors: list[Tensor]
    gpu: GPU | None
    compared: list[Tensor]  # those of the tensors that are of one size on every rank
    verified: list[Tensor]  # those that PyTorch compares in detail
    moved: list[Tensor]  # those whose bytes travel
    times: int = 1  # how often they do
    op: Any = None  # a ReduceOp, or the name of one
    root: int | None = None
    peer: int | None = None  # the other rank of a send or recv
    own_stream: bool = False  # whether it runs on a stream of NCCL's own
    # The arguments of the operator, or None where C++ lays out the tensors itself.
    args: tuple | None = None

    @property
    def size(self) -> int:
        """The bytes that travel."""
        return self.times * sum(tensor.nbytes for tensor in self.moved)


def operator(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a collective: results go into tensors that have their tags, or C++'s buckets."""
    name = schema_of(func).name.removeprefix("c10d::")
    arguments = arguments_by_name(func, args, kwargs)
    tensors = tensors_in(args)
    gpus = _gpus_of(tensors)
    gpu = gpus[0] if gpus else None
    if len(gpus) == 1:
        _place_buckets(tensors, gpu)
    group = dist.ProcessGroup.unbox(arguments["process_group"])
    roll = session.rolls.get(group)
    if roll is not None:
        if name == "barrier":
            gpu = _gpu_of_barrier(roll)
            tensors = []  # there is one of C++'s own
        elif gpu is not None:
            keys = _keys_without_kernel(name, tensors[0])
            if keys is not None:
                func.redispatch(keys, *args)  # raises the dispatcher's error
        call = _call_of(name, args, arguments, tensors, gpu)
        check_and_announce(call, roll)
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


def _keys_without_kernel(name: str, tensor: Tensor) -> DispatchKeySet | None:
    """Return the keys of a tensor's layout if c10d/Ops.cpp has no kernel for them."""
    if tensor.is_quantized:
        return QUANTIZED_KEYS
    if tensor.is_sparse and name != "allreduce_":
        return SPARSE_KEYS
    return None


def _call_of(
    name: str,
    args: tuple,
    arguments: dict[str, Any],
    tensors: list[Tensor],
    gpu: GPU | None,
) -> Call:
    """Return what a call of an operator of `torch.ops.c10d` asks for."""
    collective = COLLECTIVES[name]
    return Call(
        name,
        tensors,
        gpu,
        compared=_tensors_at(args, collective.compared),
        verified=_verified(collective, args),
        moved=_tensors_at(args, collective.moved),
        op=reductions.reduction_of_thread.op if "reduce_op" in arguments else None,
        root=arguments.get("root_rank"),
        peer=arguments.get("dst", arguments.get("src")),
        own_stream=arguments.get("async_op", True),
        args=args,
    )


def check_and_announce(call: Call, roll: Roll) -> None:
    """Refuse what NCCL, or PyTorch's group for it, refuses; then meet the other ranks."""
    if call.gpu is None:
        # C++'s own tensors have no device yet: it takes that of the parameters.
        is_own = all(map(is_scratch, call.tensors)) or is_called_by_engine()
        if roll.only_nccl and not is_own:
            raise RuntimeError(refusals.CPU)
    elif call.name != "barrier":
        _check_on_gpu(call, call.gpu, roll)
    roll.refuse_aborted(call.gpu, call.peer)
    if call.gpu is not None:
        _check_by_nccl(call, call.gpu, roll)
    announce(call, roll)


def _check_on_gpu(call: Call, gpu: GPU, roll: Roll) -> None:
    """Refuse what PyTorch's group refuses before it looks for a communicator."""
    refusals.refuse_roots(call.name, call.root, roll.size)
    if call.args is not None:
        refusals.refuse_several(call.name, call.args)
    stream = session.stream_key(gpu.index)
    if roll.size > 1 and session.capturing.get(stream) is not None:
        raise NotImplementedError("cudasim: a CUDA graph here holds no collectives")
    refusals.refuse_operators(call.name, call.tensors)
    refusals.refuse_devices(call.tensors, roll.bound_gpu)
    if call.args is not None:
        refusals.refuse_layouts(call.name, call.args, call.tensors, roll.size)
    if call.peer is not None and not roll.messages_to_self.is_batch:
        _warn_of_single_message(roll)


def _warn_of_single_message(roll: Roll) -> None:
    """Warn once of a message outside of a batch (`pointToPoint` in ProcessGroupNCCL.cpp)."""
    if not roll.is_eager:
        logs.warn_once("single message", roll.size)
    elif logs.is_on(SERIALIZATION_WARNING):
        logs.warn_once("serialized message", roll.prefixes.group, roll.size)


def _check_by_nccl(call: Call, gpu: GPU, roll: Roll) -> None:
    """Refuse what is refused as NCCL is called with a communicator."""
    refusals.refuse_types(call.name, call.tensors)
    if call.op is not None:
        refusals.refuse_reduction(call.op, call.tensors[0].dtype)
    for rank in (call.root, call.peer):
        if rank is not None:
            refusals.refuse_ranks(call.name, rank, roll)
    refusals.refuse_old_cards(call.name, call.tensors, gpu)


def announce(call: Call, roll: Roll) -> None:
    """Meet the other ranks, and book the collective."""
    gpu = call.gpu
    request = Request(
        _kind(call.name), call.tensors, call.compared, call.verified, call.root
    )
    if gpu is not None:
        roll.used_gpus.add(gpu.index)
    if call.peer is not None and not roll.messages_to_self.is_batch:
        roll.messages += 1
    if call.peer is None:
        roll.meet(request, gpu)
    elif call.peer != roll.rank:
        roll.meet_peer(request, gpu, call.peer)
    if gpu is not None:
        roll.communicators.add(roll.communicator(gpu, call.peer))
        word = COLLECTIVES[call.name].word
        book(roll, word, gpu.index, call.size, call.own_stream, call.peer)


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
    roll = session.rolls.get(group)
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
    if collective.word in ("send", "recv"):
        tensors, group, peer, _ = args
        return func(tensors, group, peer, TAG)
    if name == "alltoall_":
        return all_to_all(args)
    if _parts_differ(collective, args):
        return one_by_one(collective, args, roll.rank)
    out = func(*args, **kwargs)
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


def _gpus_of(tensors: list[Tensor]) -> list[GPU]:
    """Return the GPUs that tensors are on, each once, in the order of the tensors."""
    gpus = dict.fromkeys(map(gpu_of, tensors))
    gpus.pop(None, None)
    return list(gpus)


def _place_buckets(tensors: list[Tensor], gpu: GPU) -> None:
    """Put C++'s buckets, which have no device yet, where the other tensors are."""
    for tensor in filter(is_scratch, tensors):
        put(tensor, gpu)


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


def _verified(collective: Collective, args: tuple) -> list[Tensor]:
    """Return the tensors that PyTorch compares, which may differ where the parts do."""
    if collective.word in VARYING and _parts_differ(collective, args):
        return []
    tensors = []
    for position in collective.verified:
        tensors += _tensors_at(args, position)
    return tensors


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
    gpu = gpu_of(tensors_in(args[:1])[0])
    roll = _roll_named(arguments["group_name"])
    if roll is not None and gpu is None and roll.only_nccl:
        raise RuntimeError(refusals.CPU)
    if roll is None or gpu is None:
        return _run(func, args, kwargs)

    check_and_announce(_functional_call(name, func, arguments, gpu, roll.size), roll)
    if arguments.get("reduce_op") != "avg":
        return _run(func, args, kwargs)
    return _average(func, args, kwargs, roll.size)


def _roll_named(group: str | dist.ProcessGroup) -> Roll | None:
    """Return the roll of a group, or of the one with that name."""
    if isinstance(group, str):
        try:
            group = resolve_group(group)
        except RuntimeError:  # the operator says so itself
            return None
    return session.rolls.get(group)


def _functional_call(
    name: str, func: Callable, arguments: dict[str, Any], gpu: GPU, ranks: int
) -> Call:
    """Return what a functional collective asks for: C++ calls the operator `name`.

    It makes new tensors for the results, and copies those that the operator would change
    (torch/csrc/distributed/c10d/Functional.cpp), but for in-place forms and `out=`.
    """
    collective = COLLECTIVES[name]
    source = next(iter(arguments.values()))
    inputs = tensors_in((source,))
    args = None
    if "out" in arguments:
        args = (arguments["out"], source)
    elif schema_of(func).name.endswith("_"):
        args = (source,)

    return Call(
        name,
        inputs if args is None else tensors_in(args),
        gpu,
        compared=[] if collective.compared is None else inputs,
        # Results have the type of the inputs, and shapes that follow from theirs.
        verified=inputs * len(collective.verified),
        moved=inputs,
        times=ranks if collective.word == "all_gather" else 1,
        op=arguments.get("reduce_op"),
        root=arguments.get("src"),
        args=args,
    )


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
