"""What families of operators do: the work of one from shapes, types, layouts and `operators.json`.
Bytes are what a kernel must read and write once, or as often as the rule says, whatever the caches
hold. Flops of products, convolutions and attention are those of torch.utils.flop_counter."""

from collections.abc import Callable, Iterator
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from cudasim.timing.formulas import Work

Rule = Callable[..., Work | None]

PRECISIONS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float16: "float16",
}
PRECISIONS |= {torch.bfloat16: "bfloat16", torch.int8: "int8", torch.uint8: "int8"}
# All others work as float32 does.
ROW = 48 * 2**10  # bytes of a row that every processor has room for


def tensors(*values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(*value)


def size_of(*values: Any) -> int:
    """The bytes behind the tensors among `values`; what stride 0 repeats counts once."""
    size = 0
    for each in tensors(*values):
        count = each.numel()
        if (
            each.layout is torch.strided and not each.is_contiguous()
        ):  # sparse: as if it were not
            count = prod(
                n for n, step in zip(each.shape, each.stride(), strict=True) if step
            )
        size += count * each.element_size()
    return size


def _read(args: tuple, kwargs: dict) -> int:
    return size_of(*args, *(value for key, value in kwargs.items() if key != "out"))


def is_mask(index: Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _precision(tensor: Tensor, product: str | None = None) -> str:
    """The precision of work on `tensor`; of a `product`, tf32 where PyTorch's settings allow it."""
    single = product and tensor.dtype is torch.float32
    asked = single and torch._C._get_fp32_precision_getter("cuda", product)
    return "tf32" if asked == "tf32" else PRECISIONS.get(tensor.dtype, "float32")


def nothing(args: tuple, kwargs: dict, out: Any) -> None:
    """A view, a question, or memory that is not written: no kernel."""


def moved(
    args: tuple,
    kwargs: dict,
    out: Any,
    kind: str = "other",
    reads: list[int] | None = None,
    written: int = 1,
    kernels: int = 1,
) -> Work:
    """Bytes alone: all inputs, or the first arguments as often as `reads` says, and the results."""
    size = _read(args, kwargs) if reads is None else 0
    size += sum(
        times * size_of(each) for times, each in zip(reads or (), args, strict=False)
    )
    return Work(kind, 0.0, float(size + written * size_of(out)), kernels=kernels)


def one_value(args: tuple, kwargs: dict, out: Any) -> Work:
    return Work("copy", 0.0, float(args[0].element_size()))


def gathered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Rows or elements picked by an index: index read, picked bytes read and written. A mask is
    first made a list of places, a whole number for each of its dimensions, which is written and
    read (expandTensors in ATen/native/IndexingUtils.h)."""
    index = size_of(
        [each for each in tensors(*args[1:]) if not each.is_floating_point()]
    )
    masks = [each for each in tensors(*args[1:2]) if is_mask(each)]
    places = sum(8 * each.dim() * each.numel() for each in masks)
    listed = 2 * places * out.numel() // max(args[0].numel(), 1)
    size = float(index + listed + 2 * size_of(out))
    return Work("gather", 0.0, size, kernels=3 if masks else 1)


def scattered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Elements changed where an index says, in a copy of the input unless done in place."""
    *index, source = tensors(*args[1:], *kwargs.values())
    copying = 0 if out is args[0] else 2 * size_of(out)
    moved = float(size_of(index) + 3 * size_of(source) + copying)
    return Work("gather", 0.0, moved, kernels=2 if copying else 1)


def picked(args: tuple, kwargs: dict, out: Any) -> Work:
    """Losses that read one element a row: targets, elements, and what is written."""
    few = tuple(each for each in args if isinstance(each, Tensor) and each.dim() < 2)
    return moved(few, kwargs, out, "gather")


def sort(args: tuple, kwargs: dict, out: Any) -> Work:
    """A radix sort: keys and 8-byte positions moved once for each byte of a key."""
    passes = args[0].element_size()
    return Work(
        "other", 0.0, 2.0 * args[0].numel() * (passes + 8) * passes, kernels=2 + passes
    )


def pointwise(args: tuple, kwargs: dict, out: Any, price: float = 1) -> Work:
    """Every input read and every result written once; `price` flops an element."""
    results = list(tensors(out))
    elements = results[0].numel() if results else 0
    precision = _precision(out) if isinstance(out, Tensor) else "float32"
    return Work(
        "pointwise",
        price * elements,
        float(_read(args, kwargs) + size_of(out)),
        precision,
    )


def division(args: tuple, kwargs: dict, out: Any) -> Work:
    """By a number, a product with its reciprocal: ATen/native/cuda/BinaryDivTrueKernel.cu."""
    return pointwise(args, kwargs, out, 4 if isinstance(args[1], Tensor) else 1)


def foreach(args: tuple, kwargs: dict, out: Any) -> Work:
    listed = list(tensors(*args[:1]))
    results, (elements, kernels) = list(tensors(out)) or listed, _in_chunks(listed)
    size = float(_read(args, kwargs) + size_of(results))
    precision = _precision(results[0]) if results else "float32"
    return Work("pointwise", 2.0 * elements, size, precision, kernels)


def fused_optimizer(args: tuple, kwargs: dict, out: Any) -> Work:
    """A whole step of an optimizer: each list read, all but the gradients written."""
    (elements, kernels), size = (
        _in_chunks(args[0]),
        2 * _read(args, kwargs) - size_of(args[1]),
    )
    return Work("pointwise", 12.0 * elements, float(size), kernels=kernels)


def _in_chunks(listed: list[Tensor]) -> tuple[int, int]:
    """The elements of a list, and the kernels for it: ATen/native/cuda/MultiTensorApply.cuh."""
    elements = sum(each.numel() for each in listed)
    tensors_each, elements_each = 36, 320 * 65536  # of a kernel: chunks of 65536
    return elements, max(
        1, ceil(len(listed) / tensors_each), ceil(elements / elements_each)
    )


def reduction(
    args: tuple,
    kwargs: dict,
    out: Any,
    price: float = 1,
    kernels: int = 1,
    times: int = 1,
) -> Work:
    """The inputs read `times` times, the results written; `price` flops an element read."""
    x = next(tensors(*args))
    size = float(times * _read(args, kwargs) + size_of(out))
    return Work("reduction", price * x.numel(), size, _precision(x), kernels)


def softmax(args: tuple, kwargs: dict, out: Any) -> Work:
    """Read once where a row fits into a processor, else thrice: ATen/native/cuda/SoftMax.cu."""
    x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    row = x.shape[dim] * x.element_size() if x.dim() else 0
    return reduction(args, kwargs, out, 10, times=3 if row > ROW else 1)


def batch_norm(args: tuple, kwargs: dict, out: Any) -> Work:
    """The input read for its mean and variance where they are not given, then once more."""
    times = 2 if any(each is True for each in args[3:]) else 1  # True: while training
    return reduction(args[:1], {}, out, 8, times, times)


def _product(shape: tuple, args: tuple, out: Any, factor: Tensor) -> Work:
    size = float(size_of(args, out))
    return Work(
        "matmul", 2.0 * prod(shape), size, _precision(factor, "matmul"), 1, shape
    )


def matmul(args: tuple, kwargs: dict, out: Any, first: int = 0) -> Work:
    """mm, bmm and their kin: the factors are arguments `first` and `first` + 1."""
    a, b = args[first : first + 2]
    batch, n = a.shape[0] if a.dim() > 2 else 1, b.shape[-1] if b.dim() > 1 else 1
    return _product((batch, a.shape[-2], n, a.shape[-1]), args, out, a)


def inverse(args: tuple, kwargs: dict, out: Any) -> Work:
    """The inverse of n x n matrices: 2 n^3 operations, those of LAPACK's getrf and getri."""
    n = args[0].shape[-1]
    return _product((args[0].numel() // max(1, n * n), n, n, n), args, out, args[0])


def convolution(
    args: tuple, kwargs: dict, out: Any, groups: int, transposed: int | None = None
) -> Work:
    """An implicit product (cuDNN, https://arxiv.org/abs/1410.0759), as two arguments tell."""
    backwards = transposed is not None and args[transposed]
    size = _read(args, kwargs) + size_of(out)
    return _convolution(args[:2], out, backwards, args[groups], size)


def convolution_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """As many flops as forward for each of the two gradients that are asked for."""
    (grad, x, weight), (of_x, of_weight, _) = args[:3], args[10]
    products = max(1, int(of_x) + int(of_weight))
    size = (
        products * size_of(grad)
        + size_of(x) * of_weight
        + size_of(weight) * of_x
        + size_of(out)
    )
    return _convolution((x, weight), grad, args[7], args[9], size, products)


def _convolution(
    factors: tuple,
    out: Tensor,
    transposed: bool,
    groups: int,
    size: int,
    products: int = 1,
) -> Work:
    """Its shape: groups, positions, channels out, channels in times window."""
    x, weight = factors
    window, per_group = prod(weight.shape[2:]), weight.shape[0] // groups
    if transposed:
        shape = (
            groups,
            x.shape[0] * prod(x.shape[2:]),
            weight.shape[1] * window,
            per_group,
        )
    else:
        shape = (
            groups,
            out.shape[0] * prod(out.shape[2:]),
            per_group,
            weight.shape[1] * window,
        )
    flops = 2.0 * products * prod(shape)
    if groups > 1 and shape[2] == 1:  # no product: done without tensor cores
        return Work("pointwise", flops, float(size), _precision(x), products)
    precision, kernels = _precision(x, "conv"), products
    if "float16" in precision and not _channels_last(x, weight):
        size *= 3  # inputs and results are made as tensor cores want them
        kernels += 2
    return Work("convolution", flops, float(size), precision, kernels, shape)


def _channels_last(x: Tensor, weight: Tensor) -> bool:
    """True if channels lie side by side in either: cuDNN then works in that layout."""
    if x.dim() != 4:
        return False
    beside = [
        each.is_contiguous(memory_format=torch.channels_last) for each in (x, weight)
    ]
    return beside[0] or (beside[1] and weight.stride(3) > 1)  # 1 x 1 filters are both


def attention(args: tuple, kwargs: dict, out: Any, products: int, first: int) -> Work:
    """Fused attention, https://arxiv.org/abs/2307.08691: queries, then keys, are the `first`."""
    query, key = args[first : first + 2]
    causal = kwargs.get("is_causal") or any(each is True for each in args)
    flops = 2.0 * products * prod(query.shape) * key.shape[-2] / (2 if causal else 1)
    return Work(
        "attention", flops, float(size_of(args, out)), _precision(query, "matmul")
    )
