"""How many bytes an operation's results take, known from shapes before it runs. So a GPU refuses
what it cannot hold before the host has made it. A surely small result is counted when it is there,
which costs less."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.arguments import mapped_tensors, tensors_in
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import foretell, storage_of

aten = torch.ops.aten
COUNT = 2**22  # numbers: results of fewer are made first
META = torch.device("meta")

Bound = Callable[
    [tuple, Sequence[Tensor]], int
]  # (arguments, tensors among them) -> numbers


def reserve(gpu: GPU, func: Callable, args: tuple, kwargs: dict) -> list[Allocation]:
    """Memory of `gpu` for what `func` will return, in its order, where that is known. Raises
    PyTorch's error if the card has not so much left."""
    return [Allocation(gpu, size) for size in _sizes(func, args, kwargs)]


def reserve_growth(
    func: Callable, args: tuple, kwargs: dict, outs: Sequence[str]
) -> None:
    """As `reserve`, for what `func` adds to its arguments `outs`, to be counted again then."""
    given = [kwargs[name] for name in outs]
    if not all(isinstance(tensor, Tensor) for tensor in given):  # a list of them
        return
    empty = [
        aten.empty.memory_format([0], dtype=each.dtype, device=META) for each in given
    ]
    sizes = _sizes(func, args, kwargs | dict(zip(outs, empty, strict=True)))
    for tensor, size in zip(given, sizes, strict=False):
        foretell(storage_of(tensor), size)


def _sizes(func: Callable, args: tuple, kwargs: dict) -> list[int]:
    """Bytes of each result of `func`; none where its kernel for `meta`, without numbers, fails."""
    if func is aten._to_dense.default:  # from sparse, of which `meta` knows little
        return [args[0].numel() * (kwargs.get("dtype") or args[0].dtype).itemsize]
    if func is aten.nonzero.default:  # as CUDA does, which counts first
        return [int(args[0].count_nonzero()) * args[0].dim() * torch.int64.itemsize]
    operands = tensors_in(args)
    if any(tensor.layout is not torch.strided for tensor in operands):
        dense = bound_of(func) is _product and operands[-1].layout is torch.strided
        return [_product(args, operands) * operands[-1].dtype.itemsize] if dense else []
    elsewhere = {"device": META, "pin_memory": None} if "device" in kwargs else {}
    if "generator" in kwargs:
        elsewhere["generator"] = None
    try:
        args, kwargs = mapped_tensors(_without_numbers, (args, kwargs | elsewhere))
        out = func(*args, **kwargs)
    except Exception:
        return []
    return [tensor.untyped_storage().nbytes() for tensor in tensors_in((out,))]


def _without_numbers(each: Tensor) -> Tensor:
    return aten.empty_strided.default(
        each.shape, each.stride(), dtype=each.dtype, device=META
    )


# Bounds: at most so many numbers are in the results.


def nothing(args: tuple, operands: Sequence[Tensor]) -> int:
    return 0


def _no_more(args: tuple, operands: Sequence[Tensor]) -> int:
    return sum([tensor.numel() for tensor in operands])


def _broadcast(args: tuple, operands: Sequence[Tensor]) -> int:
    bound = math.prod([tensor.numel() for tensor in operands])
    if bound < COUNT:
        return bound
    if all(operands[0].shape == tensor.shape for tensor in operands):
        return operands[0].numel()
    shapes = [reversed(tensor.shape) for tensor in operands]
    return math.prod(map(max, itertools.zip_longest(*shapes, fillvalue=1)))


def _product(args: tuple, operands: Sequence[Tensor]) -> int:
    left, right = operands[-2:]
    if left.dim() < 2 or right.dim() < 2:
        return _no_more(args, operands)
    return left.numel() // max(left.shape[-1], 1) * right.shape[-1]


def _convolution(args: tuple, operands: Sequence[Tensor]) -> int:
    """Twice what would be there without padding, which seldom makes an image so much larger."""
    image, weight = operands[:2]
    _, _, _, stride, _, _, transposed, _, groups = args
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    larger = math.prod(stride) if transposed else 1
    return 2 * image.numel() // max(image.shape[1], 1) * channels * larger


def _embedding(args: tuple, operands: Sequence[Tensor]) -> int:
    return operands[1].numel() * operands[0].shape[-1]  # of indices and a table


def _of_sizes(args: tuple, operands: Sequence[Tensor]) -> int:
    """Of a factory, whose sizes are the first list that it is given."""
    for value in args:
        if isinstance(value, list | tuple):
            return math.prod(value)
    return COUNT


def _arange(args: tuple, operands: Sequence[Tensor]) -> int:
    start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    steps = abs((end - start) / step) if step else 0
    return int(steps) + 1 if math.isfinite(steps) else 0


def _square(args: tuple, operands: Sequence[Tensor]) -> int:
    """Of what may have as many rows and columns as its operands have numbers, and `args` say."""
    sizes = [tensor.numel() for tensor in operands]
    return sum([*sizes, *(abs(value) for value in args if type(value) is int)]) ** 2


def _index(args: tuple, operands: Sequence[Tensor]) -> int:
    """A slice for each index; a mask chooses from what is there."""
    bound = args[0].numel()
    for size, index in zip(args[0].shape, args[1], strict=False):
        if index is not None:
            if index.dtype in (torch.bool, torch.uint8):
                return 0
            bound = bound // max(size, 1) * (index.numel() if index.dim() else 1)
    return bound


def _spread(args: tuple, operands: Sequence[Tensor]) -> int:
    """Of what may return more than it was given: the operands' counts and numbers multiplied."""
    lists = [value if isinstance(value, list | tuple) else [value] for value in args]
    numbers = [abs(number) for each in lists for number in each if type(number) is int]
    return math.prod(
        max(count, 1) for count in (*(each.numel() for each in operands), *numbers)
    )


# Bounds of no more than the counts of the operands, all of which hold numbers, and this multiplied.
MULTIPLIED = dict.fromkeys((_no_more, _broadcast, _product), 1) | {_convolution: 64}

BOUNDS: dict[str, Bound] = {
    name: bound
    for bound in (
        _product,
        _of_sizes,
        _convolution,
        _embedding,
        _index,
        _arange,
        _square,
        _spread,
    )
    for name in TABLES["bounds"][bound.__name__.lstrip("_")]
}


def bound_of(func: Callable) -> Bound:
    schema = func._schema
    given = [argument for argument in schema.arguments if not argument.is_out]
    results = [result for result in schema.returns if "Tensor" in str(result.type)]
    known = any(result.alias_info is not None for result in results)
    if not results or (known and len(given) == len(schema.arguments)):
        return nothing  # no tensors, or those that it was given and leaves as large
    if func.namespace != "aten":
        return _no_more
    factory = not any("Tensor" in str(argument.type) for argument in given)
    usual = (
        _spread
        if factory
        else _broadcast
        if torch.Tag.pointwise in func.tags
        else _no_more
    )
    return BOUNDS.get(func.overloadpacket.__name__, usual)
