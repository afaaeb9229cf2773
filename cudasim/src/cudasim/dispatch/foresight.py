"""How much memory the results of an operation take, known from shapes before it runs.

With this a GPU refuses what it cannot hold before the host has computed it. A result that is
surely small is counted once it is there, which costs less time.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.arguments import map_tensors, tensors_in
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import META, foretell, storage_of
from cudasim.torch_private.operators import base_name, schema_of, to_dense

aten = torch.ops.aten
LARGE_RESULT = 2**22  # elements; only memory for results of so many is taken in advance
# Elements, in the place of a number that is not known: more than any card holds.
UNKNOWN_SIZE = 2**62

# (arguments, tensors among them) -> at most how many elements the results have
Bound = Callable[[tuple, Sequence[Tensor]], int]


def reserve(gpu: GPU, func: Callable, args: tuple, kwargs: dict) -> list[Allocation]:
    """Take memory of `gpu` for each result of `func`, in order, as far as sizes are known.

    Raises PyTorch's out-of-memory error if the card has too little left.
    """
    return [Allocation(gpu, size) for size in _result_sizes(func, args, kwargs)]


def reserve_growth(
    func: Callable, args: tuple, kwargs: dict, out_names: Sequence[str]
) -> None:
    """Take the memory by which `func` will enlarge its arguments `out_names`.

    Count their storages again afterwards.
    """
    outs = [kwargs[name] for name in out_names]
    if not all(isinstance(tensor, Tensor) for tensor in outs):  # a list of them
        return

    empty = {}
    for name, out in zip(out_names, outs, strict=True):
        empty[name] = aten.empty.memory_format([0], dtype=out.dtype, device=META)
    sizes = _result_sizes(func, args, kwargs | empty)
    for tensor, size in zip(outs, sizes, strict=False):
        foretell(storage_of(tensor), size)


def _result_sizes(func: Callable, args: tuple, kwargs: dict) -> list[int]:
    """Return the bytes of each result of `func`; an empty list if they are not known."""
    if func is to_dense:  # the meta device knows little of sparse tensors
        dtype = kwargs.get("dtype") or args[0].dtype
        return [args[0].numel() * dtype.itemsize]
    if func is aten.nonzero.default:  # CUDA counts first, too
        count = int(args[0].count_nonzero())
        return [count * args[0].dim() * torch.int64.itemsize]

    operands = tensors_in(args)
    if any(tensor.layout is not torch.strided for tensor in operands):
        return _sparse_product_size(func, args, operands)
    return _sizes_on_meta(func, args, kwargs)


def _sparse_product_size(
    func: Callable, args: tuple, operands: Sequence[Tensor]
) -> list[int]:
    """Return the size of the product of a sparse and a dense matrix."""
    dense = operands[-1]
    if bound_of(func) is not _product or dense.layout is not torch.strided:
        return []
    return [_product(args, operands) * dense.dtype.itemsize]


def _sizes_on_meta(func: Callable, args: tuple, kwargs: dict) -> list[int]:
    """Return the sizes of the results on the meta device; an empty list if unknown."""
    out = run_on_meta(func, args, kwargs)
    return [tensor.untyped_storage().nbytes() for tensor in tensors_in((out,))]


def run_on_meta(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return what the kernel for the meta device, which has no data, makes of a call.

    It is None if there is no such kernel, or if the arguments are wrong.
    """
    kwargs = dict(kwargs)
    if "device" in kwargs:
        kwargs["device"] = META
        kwargs["pin_memory"] = None
    if "generator" in kwargs:
        kwargs["generator"] = None
    try:
        args, kwargs = map_tensors(_on_meta, (args, kwargs))
        return func(*args, **kwargs)
    except Exception:  # there is no such kernel, or the arguments are wrong
        return None


def _on_meta(tensor: Tensor) -> Tensor:
    return aten.empty_strided.default(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META
    )


# The bounds. Each is called for many operations, so they are quick rather than exact.


def _extent(tensor: Tensor) -> int:
    """Return the product of the sizes of `tensor`, without those of 0.

    An empty tensor may have a large result, such as the sum over its empty dimension.
    """
    elements = tensor.numel()
    if elements or tensor.is_nested:  # nested tensors have no sizes
        return elements
    return math.prod([size for size in tensor.shape if size])


def no_results(args: tuple, operands: Sequence[Tensor]) -> int:
    """For operations whose results take no memory."""
    return 0


def _sum(args: tuple, operands: Sequence[Tensor]) -> int:
    """For results with no more elements than all operands together."""
    return sum([_extent(tensor) for tensor in operands])


def _broadcast(args: tuple, operands: Sequence[Tensor]) -> int:
    """For results of the shape to which the operands are broadcast."""
    bound = math.prod([tensor.numel() for tensor in operands])
    if bound < LARGE_RESULT:
        return bound
    if all(operands[0].shape == tensor.shape for tensor in operands):
        return operands[0].numel()
    shapes = [reversed(tensor.shape) for tensor in operands]
    return math.prod(map(max, itertools.zip_longest(*shapes, fillvalue=1)))


def _product(args: tuple, operands: Sequence[Tensor]) -> int:
    """For products of the last two operands."""
    left, right = operands[-2:]
    if left.dim() < 2 or right.dim() < 2:
        return _sum(args, operands)
    return math.prod(left.shape[:-1]) * right.shape[-1]


def _scaled_product(args: tuple, operands: Sequence[Tensor]) -> int:
    """For products of the first two operands, whose scales follow."""
    return _product(args, operands[:2])


def _convolution(args: tuple, operands: Sequence[Tensor]) -> int:
    """For convolutions: twice the size without padding, which seldom adds more."""
    image, weight = operands[:2]
    _, _, _, stride, _, _, transposed, _, groups = args
    if transposed:
        channels = weight.shape[1] * groups
        enlargement = math.prod(stride)
    else:
        channels = weight.shape[0]
        enlargement = 1
    return 2 * image.numel() // max(image.shape[1], 1) * channels * enlargement


def _embedding(args: tuple, operands: Sequence[Tensor]) -> int:
    """For a row of a table for each index."""
    table, indices = operands[:2]
    return indices.numel() * table.shape[-1]


def _of_sizes(args: tuple, operands: Sequence[Tensor]) -> int:
    """For factories, whose shape is the first list among the arguments."""
    for value in args:
        if isinstance(value, list | tuple):
            return math.prod(value)
    return LARGE_RESULT


def _arange(args: tuple, operands: Sequence[Tensor]) -> int:
    if len(args) == 1:
        start, end, step = 0, args[0], 1
    else:
        start, end, step = (*args, 1)[:3]
    steps = abs((end - start) / step) if step else 0
    return int(steps) + 1 if math.isfinite(steps) else 0


def _square(args: tuple, operands: Sequence[Tensor]) -> int:
    """For matrices with up to as many rows as the operands hold elements and `args` say."""
    elements = [tensor.numel() for tensor in operands]
    numbers = [abs(value) for value in args if type(value) is int]
    return (sum(elements) + sum(numbers)) ** 2


def _index(args: tuple, operands: Sequence[Tensor]) -> int:
    """For a slice for each index; a mask only chooses from what is there."""
    tensor, indices = args[:2]
    bound = tensor.numel()
    for size, index in zip(tensor.shape, indices, strict=False):
        if index is None:
            continue
        if index.dtype in (torch.bool, torch.uint8):
            return 0
        slices = index.numel() if index.dim() else 1
        bound = bound // max(size, 1) * slices
    return bound


def _spread(args: tuple, operands: Sequence[Tensor]) -> int:
    """For results that may be larger than the operands: all their sizes, multiplied."""
    bound = 1
    for tensor in operands:
        bound *= _extent(tensor)
    for value in args:
        for number in value if isinstance(value, list | tuple) else [value]:
            if type(number) is int:
                bound *= max(abs(number), 1)
    return bound


_BOUNDS_BY_KIND: dict[str, Bound] = {
    "product": _product,
    "scaled_product": _scaled_product,
    "of_sizes": _of_sizes,
    "convolution": _convolution,
    "embedding": _embedding,
    "index": _index,
    "arange": _arange,
    "square": _square,
    "spread": _spread,
}


def _bounds_by_operator() -> dict[str, Bound]:
    bounds = {}
    for kind, operators in TABLES["bounds"].items():
        bounds |= dict.fromkeys(operators, _BOUNDS_BY_KIND[kind])
    return bounds


BOUNDS = _bounds_by_operator()

# Some bounds are at most this factor times the product of the operands' numbers of elements,
# if none of them is empty. Their operands are all the tensors that count.
BOUND_FACTORS: dict[Bound, int] = {
    _sum: 1,
    _broadcast: 1,
    _product: 1,
    _convolution: 64,
}


def bound_of(func: Callable) -> Bound:
    """Return the bound for the results of `func`."""
    schema = schema_of(func)
    results = [result for result in schema.returns if "Tensor" in str(result.type)]
    inputs = [argument for argument in schema.arguments if not argument.is_out]
    has_outs = len(inputs) < len(schema.arguments)
    aliases = any(result.alias_info is not None for result in results)
    if not results or (aliases and not has_outs):
        return no_results  # no tensors, or operands whose size does not change
    if func.namespace != "aten":
        return _sum

    name = base_name(func)
    if name in BOUNDS:
        return BOUNDS[name]
    if not any("Tensor" in str(argument.type) for argument in inputs):
        return _spread  # a factory
    if torch.Tag.pointwise in func.tags:
        return _broadcast
    return _sum
