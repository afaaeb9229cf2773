"""The operations that the general rule of `placement` does not fit.

To give another operator a rule, decorate a function that runs it:

    @rule(aten.example.default)
    def example(func, args, kwargs):
        return run(func, args, kwargs, args[:1])  # the second tensor may be anywhere

`run` compares the devices of the operands that it is given, and puts the results on their
GPU. To keep the rule of an operator and only do something before or after it, decorate a
function with `layer` instead.
"""

import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from cudasim.clock.costs import WAITS
from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch import dtypes, tags
from cudasim.dispatch.arguments import operands_of, tensors_in
from cudasim.dispatch.checks import disagreement
from cudasim.dispatch.copies import Copy, copy_of, keep_pinned
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.foresight import LARGE_RESULT
from cudasim.dispatch.kernel_names import name_backend, named_as_on_cuda
from cudasim.dispatch.lists import check_types
from cudasim.dispatch.operators import (
    RULE_FINDERS,
    Rule,
    check,
    layer,
    name_of,
    operator_of,
    rule,
    written_by,
)
from cudasim.dispatch.placement import make_on, run, tag_results
from cudasim.dispatch.scratch import GRAPHS
from cudasim.dispatch.tags import CPU, device_of, gpu_of, is_scratch, put, storage_of
from cudasim.dispatch.waiting import wait_for_values, watch_copy
from cudasim.session import session
from cudasim.torch_private import operators as private
from cudasim.torch_private.dispatch import is_deterministic
from cudasim.words import WORDS

aten = torch.ops.aten
# Where the code of this package is, and PyTorch's.
LIBRARIES = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
MESSAGES = WORDS["devices"]


# Making, copying and moving.


@rule(private.efficient_zeros)
def make_zeros(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Give autograd's zeros memory: C++ crashes in a mode on those that have none."""
    return run(aten.zeros.default, args, kwargs, ())


# Only a copy that names a device needs it, and the mode runs no such copy directly.
@layer(private.to_copy, idle=lambda args: True)
def copy_to(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Copy to another device or dtype.

    C++ too names the CPU as the device, as it believes every tensor to be there.
    """
    source = args[0]
    device = kwargs.get("device")
    non_blocking = kwargs.get("non_blocking", False)
    if device is not None and device.type == session.type.name:
        gpu = resolve(device)
        watch_copy(gpu_of(source), gpu, non_blocking, source)
        copy = make_on(gpu, func, args, kwargs)
        keep_pinned(Copy(source, copy, non_blocking), gpu_of(source), gpu)
        return copy
    to_host = session.thread.to_host
    if device is not None and device.type == "cpu" and _is_called_by_graph(func):
        to_host = True
    if to_host:
        watch_copy(gpu_of(source), None, non_blocking, None)
        copy = put(func(*args, **kwargs), None)
        return tags.pin_as_copied(copy, non_blocking)
    return inner(func, args, kwargs)


def _is_called_by_graph(func: Callable) -> bool:
    """Return whether a compiled graph has called this very operator, by its name.

    C++ calls it from within others, and believes every tensor to be on the CPU. Between the
    graph and here may be dispatch modes of PyTorch, which call the operator again.
    """
    frame = sys._getframe(1)
    is_named = False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(GRAPHS):
            return is_named
        if frame.f_code is private.CALL_OF_OPERATOR:
            is_named = frame.f_locals.get("self") is func
        elif not file.startswith(LIBRARIES):
            return False
        frame = frame.f_back
    return False


@rule(aten.copy_.default)
def copy_between(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Copy between devices: the target keeps its own, unless it is scratch."""
    source, target, non_blocking = copy_of(func, args, kwargs, None)
    gpu = tags.gpu_read(target)
    if gpu is None and is_scratch(target) and not is_scratch(source):
        gpu = gpu_of(source)
        put(target, gpu)
    if session.lost_one:
        tags.gpu_read(source)
    if session.watching:
        host = target if gpu is None else source
        watch_copy(gpu_of(source), gpu, non_blocking, host)
    if non_blocking:
        keep_pinned(Copy(source, target, non_blocking), gpu_of(source), gpu)
    session.thread.operation.last_gpu = gpu
    return func(*args, **kwargs)


# Indexing and filling.


@rule(
    aten.index.Tensor,
    private.unsafe_index,
    aten.index_put.default,
    aten.index_put_.default,
    private.index_put_impl,
    private.unsafe_index_put,
)
def index(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Index a tensor by indices that are on its own GPU or on the CPU."""
    indexed, indices = args[:2]
    home = gpu_of(indexed)
    _check_values(indexed, *args[2:], **kwargs)
    strangers = []  # indices that are on another GPU
    for tensor in tensors_in(indices):
        if gpu_of(tensor) not in (None, home):
            strangers.append(tensor)
    if strangers and not is_scratch(indexed):
        raise RuntimeError(MESSAGES["indices"].format(device_of(indexed)))

    operands = [value for value in args if isinstance(value, Tensor)]
    if len(operands) == 2 and not operands[1].dim() and not is_scratch(indexed):
        operands.pop()  # a single number to put there may be on any device
    return run(func, args, kwargs, [*operands, *strangers])


def _check_values(
    indexed: Tensor,
    values: Tensor | None = None,
    accumulate: bool = False,
    unsafe: bool = False,
) -> None:
    """Refuse values to put that are elsewhere, where CUDA sorts the indices first.

    See `_index_put_impl_` in aten/src/ATen/native/TensorAdvancedIndexing.cpp.
    """
    sorts = accumulate or is_deterministic()
    if values is None or not sorts or is_scratch(indexed) or is_scratch(values):
        return
    home, there = device_of(indexed), device_of(values)
    if home != CPU and there != home and values.dim():
        raise RuntimeError(MESSAGES["values to put"].format(home, there))


@rule(
    aten.fill.Tensor,
    aten.fill_.Tensor,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
)
def fill(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Fill with a number, which may be on any device.

    With a mask it may only if the filled tensor is on a GPU.
    """
    has_mask = len(args) == 3
    if is_scratch(args[0]) or (has_mask and gpu_of(args[0]) is None):
        return run(func, args, kwargs, args)
    return run(func, args, kwargs, args[:-1])


@rule(private.pack_padded_sequence)
def pack(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Pack sequences whose lengths are on the CPU, where the batch sizes stay."""
    lengths = args[1]
    if gpu_of(lengths):
        _, _, type_name = lengths.type().rpartition(".")
        dtype_name = type_name.removesuffix("Tensor")
        message = MESSAGES["lengths"]
        raise RuntimeError(
            message.format(lengths.dim(), device_of(lengths), dtype_name)
        )
    out = run(func, args, kwargs, args[:1])
    batch_sizes = out[1]
    put(batch_sizes, None)
    return out


# Storages.


@rule(aten.resize_.default, aten.resize_as_.default)
def resize(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Charge the GPU before a storage grows, and count it again afterwards."""
    tensor, shape = args[:2]
    if isinstance(shape, Tensor):
        shape = shape.shape
    storage = storage_of(tensor)
    elements = tensor.storage_offset() + math.prod(shape)
    tags.foretell(storage, elements * tensor.element_size())
    try:
        return run(func, args, kwargs, args[:1])
    finally:
        tags.recount(storage)


@rule(
    aten.set_.source_Storage,
    aten.set_.source_Storage_storage_offset,
    aten.set_.source_Tensor,
    aten.set_.source_Tensor_storage_offset,
)
def set_storage(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Give a tensor another storage of the same device.

    The target is scratch where C++ wraps a storage to copy it.
    """
    target, source = args[:2]
    storage = storage_of(source) if isinstance(source, Tensor) else source
    if not target.is_meta and not is_scratch(target):
        device = storage_of(target).device
        if device != storage.device:
            raise RuntimeError(MESSAGES["storage"].format(device, storage.device))

    size = storage.nbytes()
    out = func(*args, **kwargs)
    if storage.nbytes() != size:  # the tensor's shape needed more than it held
        tags.recount(storage)
    return out


# Lists of tensors.

# Their kernel takes the number that is added.
FUSED_ADDITIONS = {private.foreach_add, private.foreach_add_}
# The same, except that a number on the CPU is read first.
FUSED_PRODUCTS = {
    private.foreach_mul,
    private.foreach_mul_,
    private.foreach_div,
    private.foreach_div_,
}

Home = GPU | None  # where an operation runs; None is the CPU


def foreach(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run an operation on lists of tensors, each position on a device of its own."""
    lists = []
    others = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
            lists.append(value)
        else:
            others.append(value)
    if not lists:
        return func(*args, **kwargs)  # which refuses empty lists
    scalars = [value for value in others if isinstance(value, Tensor)]

    homes = _homes(func, args, kwargs, lists, scalars)
    if session.lost_one:
        for gpu in filter(None, homes):
            gpu.check()
    if scalars and homes[0] is not None:
        _check_scalar(func, scalars[0], lists[0][0], homes[0])
    if not any(homes):
        return func(*args, **kwargs)
    check_types(func, lists, others)
    reserved = [None] * len(homes)
    if operator_of(func).makes_tensors:
        elements = sum([tensor.numel() for tensor in lists[0]])
        if elements >= LARGE_RESULT:
            reserved = _reserve_results(lists[0], homes)

    try:
        with named_as_on_cuda(func, args):
            out = func(*args, **kwargs)
    except NotImplementedError as error:
        name_backend(error)
        raise
    _count_changes(func, args, kwargs)
    result_lists = out if isinstance(out, tuple) else (out,)
    for results in result_lists:
        for result, home, memory in zip(results or (), homes, reserved, strict=False):
            if home is not None:
                tag_results(result, home, memory)
    return out


def _count_changes(func: Callable, args: tuple, kwargs: dict) -> None:
    """Count a change of each tensor that is written to, for autograd to notice.

    CUDA's kernels do that themselves: `increment_version` of
    aten/src/ATen/native/cuda/ForeachFunctors.cuh.
    """
    for tensors in written_by(func, args, kwargs):
        counted = [tensor for tensor in tensors if not tensor.is_inference()]
        increment_version(counted)


# There are more than two hundred, known by their name.
@RULE_FINDERS.append
def _find_foreach(func: Callable) -> Rule | None:
    return foreach if name_of(func).startswith("_foreach_") else None


def _homes(
    func: Callable, args: tuple, kwargs: dict, lists: list, scalars: list[Tensor]
) -> list[Home]:
    """Return the device of each position. Raises CUDA's error where they disagree."""
    count = min(map(len, lists), default=0)
    home = gpu_of(scalars[0] if scalars else lists[0][0])
    if _are_all_on(home, [scalars, *lists]):
        return [home] * count

    homes = []
    for position in zip(*lists, strict=False):
        # Single numbers on the CPU do not count.
        gpus = {gpu_of(scalar) for scalar in scalars if scalar.dim()}
        for tensor in position:
            gpu = gpu_of(tensor)
            if gpu is not None or tensor.dim():
                gpus.add(gpu)
        if len(gpus) > 1:
            raise disagreement(func, args, kwargs)
        homes.append(gpus.pop() if gpus else None)
    return homes


def _are_all_on(home: Home, lists: list[list[Tensor]]) -> bool:
    for tensors in lists:
        for tensor in tensors:
            if gpu_of(tensor) is not home:
                return False
    return True


def _check_scalar(func: Callable, scalar: Tensor, first: Tensor, home: GPU) -> None:
    """Check the device of a number that is added to, or multiplied with, a list."""
    gpu = gpu_of(scalar)
    if gpu is home:
        return
    refused = func in FUSED_PRODUCTS and gpu is not None
    # An addition of another dtype is not fused.
    if func in FUSED_ADDITIONS:
        refused = gpu is not None or scalar.dtype == first.dtype
    if refused:
        raise RuntimeError(MESSAGES["scalar"].format(home.device, device_of(scalar)))


def _reserve_results(
    tensors: list[Tensor], homes: list[Home]
) -> list[list[Allocation] | None]:
    """Take memory for a result as large as each tensor."""
    reserved = []
    for tensor, home in zip(tensors, homes, strict=False):
        memory = None
        if home is not None:
            memory = [Allocation(home, tensor.numel() * tensor.element_size())]
        reserved.append(memory)
    return reserved


@rule(private.foreach_copy_)
def copy_each(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Copy each tensor of a list, which crosses devices as `copy_` does."""
    out = func(*args, **kwargs)
    _count_changes(func, args, kwargs)
    return out


def run_plain(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run an operation on the CPU without any rule."""
    return func(*args, **kwargs)


# Those of `record_function`: every step of an optimizer is one.
@RULE_FINDERS.append
def _find_profiler(func: Callable) -> Rule | None:
    return run_plain if getattr(func, "namespace", "") == "profiler" else None


# What runs around rules: the wait of the host; and checks of dtypes.


@layer(*WAITS, idle=lambda args: not session.watching)
def wait_for_result(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Let the host wait for the operations whose result it needs."""
    if session.watching:
        wait_for_values(func, args, kwargs)
    return inner(func, args, kwargs)


# Dtypes that all of CUDA's kernels take.
COMMON_DTYPES = (torch.float32, torch.float64)


def _has_common_dtype(args: tuple) -> bool:
    for operand in args:
        if getattr(operand, "dtype", torch.float32) not in COMMON_DTYPES:
            return False
    return True


@check(*dtypes.CHECKED, idle=_has_common_dtype)
def check_dtype(func: Callable, args: tuple, kwargs: dict) -> None:
    """Refuse dtypes for which CUDA has no kernel."""
    if _has_common_dtype(args) or not session.type.is_cuda:
        return
    gpu = _gpu_of_any(args, kwargs)
    if gpu is not None:
        dtypes.check(func, args, kwargs, gpu)


def _gpu_of_any(args: tuple, kwargs: dict) -> Home:
    """Return the GPU of a call, whose first operand may be a number on the CPU."""
    gpus = map(gpu_of, operands_of(args, kwargs))
    return next((gpu for gpu in gpus if gpu is not None), None)


def _has_usual_dtype(args: tuple) -> bool:
    found = {getattr(operand, "dtype", None) for operand in args}
    if not dtypes.REFUSED.keys().isdisjoint(found):
        return False
    # A half tensor and a complex number are promoted to a complex half.
    return torch.float16 not in found or found.isdisjoint(dtypes.COMPLEX)


@check(*itertools.chain(*dtypes.REFUSED.values()), idle=_has_usual_dtype)
def check_rare_dtype(func: Callable, args: tuple, kwargs: dict) -> None:
    """Refuse dtypes for which the CPU alone has a kernel."""
    if not _has_usual_dtype(args) and session.type.is_cuda:
        if _gpu_of_any(args, kwargs) is not None:
            dtypes.check_rare(func, args, kwargs)


# Products of matrices. Of plain tensors none is sparse.
PRODUCTS = (
    "mm",
    "mv",
    "addmm",
    "addmv",
    "bmm",
    "_sparse_addmm",
    "_sparse_sparse_matmul",
)


@check(*PRODUCTS, idle=lambda args: True)
def check_product(func: Callable, args: tuple, kwargs: dict) -> None:
    """Refuse dtypes for which CUDA has no product with a sparse matrix."""
    gpu = _gpu_of_any(args, kwargs)
    if gpu is not None and session.type.is_cuda:
        factors = tensors_in(args)[-2:]  # before them there may be a summand
        dtypes.check_sparse(gpu, *factors)


# The checks of the arguments of operators.
CHECKS: dict[Callable, Callable] = {
    aten.native_dropout.default: dtypes.check_dropout,
    aten.native_layer_norm.default: dtypes.check_norm,
    aten.native_group_norm.default: dtypes.check_norm,
    private.int_mm: dtypes.check_int_product,
    aten.multi_margin_loss.default: dtypes.check_margin_weight,
    aten.nll_loss2d_forward.default: dtypes.check_image_targets,
}


@check(*CHECKS)
def check_arguments(func: Callable, args: tuple, kwargs: dict) -> None:
    """Run the check of an operator."""
    if session.type.is_cuda:
        CHECKS[func](*operands_of(args, kwargs))
