"""Operations with a rule of their own, which the general one of `placement` does not fit."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.clock.costs import WAITS
from cudasim.device.gpu import Allocation
from cudasim.dispatch import custom, dtypes, tags
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.checks import disagreement
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.foresight import COUNT
from cudasim.dispatch.operators import KINDS, Rule, around, name_of, operator_of, rule
from cudasim.dispatch.placement import general, make_on, run, settle
from cudasim.dispatch.tags import device_of, gpu_of, is_scratch, put, storage_of
from cudasim.dispatch.waiting import wait_for, waits, watch_copy
from cudasim.session import session
from cudasim.words import WORDS

aten = torch.ops.aten
SAID = WORDS["devices"]


@rule(aten._efficientzerotensor.default)
def zeros(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Autograd's zeros without memory become zeros with it: C++ crashes on them in a mode."""
    return run(aten.zeros.default, args, kwargs, ())


@rule(aten._to_copy.default)
def to_copy(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A copy on another device. C++ too says `cpu`, of which it believes every tensor to be."""
    device, non_blocking = kwargs.get("device"), kwargs.get("non_blocking", False)
    if device is not None and device.type == session.type.name:
        gpu = resolve(device)
        watch_copy(gpu_of(args[0]), gpu, non_blocking)
        return make_on(gpu, func, args, kwargs)
    if session.thread.to_host:
        watch_copy(gpu_of(args[0]), None, non_blocking)
        return tags.pin_as_copied(put(func(*args, **kwargs), None), non_blocking)
    return run(
        func, args, kwargs, tensors_in((*args, *kwargs.values()))
    )  # in vmap, a number


@rule(aten.to_mkldnn.default)
def to_mkldnn(func: Callable, args: tuple, kwargs: dict) -> Any:
    """MKL-DNN is the CPU's: refused on a GPU as the dispatcher refuses it."""
    return (
        custom.on_gpu(func, args, kwargs) if gpu_of(args[0]) else func(*args, **kwargs)
    )


@rule(aten.copy_.default)
def copy_between(func: Callable, args: tuple, kwargs: dict) -> Any:
    """`copy_` crosses devices: the target keeps its own, unless it is scratch."""
    target, source = args[0], args[1]
    gpu = tags.gpu_read(target)
    if gpu is None and is_scratch(target):
        gpu = gpu_of(source)
        put(target, gpu)
    if session.watching:
        watch_copy(
            gpu_of(source),
            gpu,
            args[2] if len(args) > 2 else kwargs.get("non_blocking"),
        )
    session.thread.doing.last_gpu = gpu
    return func(*args, **kwargs)


INDEXING = "index_put index_put_ _index_put_impl_ _unsafe_index_put".split()


@rule(
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    *(getattr(aten, n).default for n in INDEXING),
)
def index(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Indices may be on the CPU; on a GPU they must be on that of the indexed tensor."""
    home = gpu_of(args[0])
    strangers = [
        each for each in tensors_in(args[1]) if gpu_of(each) not in (None, home)
    ]
    if strangers and not is_scratch(args[0]):
        raise RuntimeError(SAID["indices"].format(device_of(args[0])))
    operands = [item for item in args if isinstance(item, Tensor)]
    if len(operands) == 2 and not operands[1].dim() and not is_scratch(operands[0]):
        operands.pop()  # a single number to put there may be on any device
    return run(func, args, kwargs, [*operands, *strangers])


@rule(
    aten.fill.Tensor,
    aten.fill_.Tensor,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
)
def fill(func: Callable, args: tuple, kwargs: dict) -> Any:
    """The number to fill with may be on any device; with a mask, only if the tensor is on a GPU."""
    every = is_scratch(args[0]) or (len(args) == 3 and gpu_of(args[0]) is None)
    return run(func, args, kwargs, args if every else args[:-1])


@rule(aten._pack_padded_sequence.default)
def pack(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Lengths come from the CPU, and the batch sizes stay there; the data may be on a GPU."""
    lengths = args[1]
    if gpu_of(lengths):
        kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
        raise RuntimeError(
            SAID["lengths"].format(lengths.dim(), device_of(lengths), kind)
        )
    out = run(func, args, kwargs, args[:1])
    put(out[1], None)
    return out


@rule(aten.resize_.default, aten.resize_as_.default)
def resize(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A storage that grows is charged before, one that grows or shrinks is counted again."""
    tensor, shape = args[0], args[1].shape if isinstance(args[1], Tensor) else args[1]
    storage = storage_of(tensor)
    tags.foretell(
        storage, (tensor.storage_offset() + math.prod(shape)) * tensor.element_size()
    )
    try:
        return run(func, args, kwargs, args[:1])
    finally:
        tags.recount(storage)


SOURCES = "source_Storage source_Storage_storage_offset source_Tensor source_Tensor_storage_offset"


@rule(*(getattr(aten.set_, overload) for overload in SOURCES.split()))
def set_storage(func: Callable, args: tuple, kwargs: dict) -> Any:
    """`Tensor.set_`: another storage, of the same device. C++ wraps some in scratch to copy."""
    target, source = args[:2]
    theirs = storage_of(source) if isinstance(source, Tensor) else source
    if not target.is_meta and not is_scratch(target):
        here, there = storage_of(target).device, theirs.device
        if here != there:
            raise RuntimeError(SAID["storage"].format(here, there))
    before = theirs.nbytes()
    out = func(*args, **kwargs)
    if theirs.nbytes() != before:  # the tensor's sizes needed more than it held
        tags.recount(theirs)
    return out


ADDS = {
    aten._foreach_add.Tensor,
    aten._foreach_add_.Tensor,
}  # in one kernel, with the number
# The same, but for a number on the CPU, which is read.
SCALES = {
    getattr(aten, f"_foreach_{name}").Tensor for name in ("mul", "mul_", "div", "div_")
}

# Operations on lists of tensors, known by name: there are more than two hundred.
KINDS.append(lambda func: foreach if name_of(func).startswith("_foreach_") else None)


def foreach(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Lists of tensors: each position is an operation of its own, on a device of its own."""
    values = (*args, *kwargs.values())
    lists = [value for value in values if isinstance(value, list | tuple) and value]
    lists = [value for value in lists if isinstance(value[0], Tensor)]
    alone = [value for value in values if isinstance(value, Tensor)]
    homes = [gpu_of(alone[0] if alone else lists[0][0])] * min(
        map(len, lists), default=0
    )
    if any(gpu_of(tensor) is not homes[0] for tensor in itertools.chain(*lists, alone)):
        homes = _homes(func, args, kwargs, lists, alone)
    if alone and homes[0] is not None and func in ADDS | SCALES:
        there = gpu_of(alone[0])
        fused = (
            func in ADDS and alone[0].dtype == lists[0][0].dtype
        )  # else one after the other
        if there is not homes[0] and (there is not None or fused):
            raise RuntimeError(
                SAID["scalar"].format(homes[0].device, device_of(alone[0]))
            )
    reserved = [None] * len(homes)
    if (
        operator_of(func).makes
        and sum([tensor.numel() for tensor in lists[0]]) >= COUNT
    ):
        pairs = zip(homes, lists[0], strict=False)
        reserved = [
            gpu and [Allocation(gpu, a.numel() * a.element_size())] for gpu, a in pairs
        ]
    out = func(*args, **kwargs)
    for results in out if isinstance(out, tuple) else (out,):
        for result, home, memory in zip(results or (), homes, reserved, strict=False):
            if home is not None:
                settle(result, home, memory)
    return out


def _homes(func: Callable, args: tuple, kwargs: dict, lists: list, alone: list) -> list:
    """The place of each position; those of numbers on the CPU count nothing."""
    of_all, homes = {gpu_of(tensor) for tensor in alone if tensor.dim()}, []
    for position in zip(*lists, strict=False):
        found = [(gpu_of(tensor), tensor) for tensor in position]
        places = of_all | {
            gpu for gpu, tensor in found if gpu is not None or tensor.dim()
        }
        if len(places) > 1:
            raise disagreement(func, args, kwargs)
        homes.append(places.pop() if places else None)
    return homes


@rule(aten._foreach_copy_.default)  # crosses devices, as `copy_` does
def _plain(func: Callable, args: tuple, kwargs: dict) -> Any:
    return func(*args, **kwargs)


# Those of `record_function`, of which every optimizer's step is one.
KINDS.append(
    lambda func: _plain if getattr(func, "namespace", "") == "profiler" else None
)


@around(*WAITS, idle=lambda args: not session.watching)
def watched(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    if session.watching and waits(func, args, kwargs):
        wait_for(gpu_of(args[0]))
    return inner(func, args, kwargs)


# Types that each of CUDA's kernels takes.
COMMON = (torch.float32, torch.float64)


@around(*dtypes.KERNELS, idle=lambda args: getattr(args[0], "dtype", None) in COMMON)
def typed(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    tensors = tensors_in((*args, *kwargs.values()))
    if tensors and tensors[0].dtype not in COMMON and session.type.lists_kernels:
        if (gpu := gpu_of(tensors[0])) is not None:
            dtypes.check(func, args, kwargs, gpu)
    return inner(func, args, kwargs)


KINDS.append(lambda func: absent if name_of(func) in dtypes.ABSENT else None)


def absent(func: Callable, args: tuple, kwargs: dict) -> Any:
    """The CPU's alone: CUDA's dispatcher has no kernel, and says so."""
    return (custom.run_custom if session.type.lists_kernels else general)(
        func, args, kwargs
    )


PRODUCTS = (
    aten.mm.default,
    aten.mv.default,
)  # idle: the quick way takes no sparse tensors
CHECKS = {
    aten.native_layer_norm.default: dtypes.check_norm,
    aten.native_group_norm.default: lambda image, *rest: dtypes.check_norm(
        image, None, *rest
    ),
    aten._int_mm.default: dtypes.check_int,
    **dict.fromkeys((aten._sparse_addmm.default, *PRODUCTS), dtypes.check_sparse),
    **dict.fromkeys(
        (aten._scaled_mm.default, aten._scaled_mm.out), dtypes.check_scaled
    ),
}


@around(*PRODUCTS, idle=lambda args: True)
@around(*CHECKS.keys() - PRODUCTS)
def checked(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    if session.type.lists_kernels and any(gpu_of(each) for each in tensors_in(args)):
        CHECKS[func](*args[:4])
    return inner(func, args, kwargs)
