"""What families of operators do: each rule gives the work of one, from shapes, types and layouts.

Bytes are what a kernel must read and write once, or as often as the rule says, whatever the
caches hold. Flops of products, convolutions and attention are those of torch.utils.flop_counter.
A rule is called with the operator's arguments and result; some functions here make a rule.
"""

from collections.abc import Callable, Iterable
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from cudasim.timing.formulas import Work

Rule = Callable[[tuple, dict, Any], Work | None]

PRECISIONS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "int8",
}  # all others work as float32 does
STRIDED = torch.strided


def size_of(tensor: Tensor) -> int:
    """The bytes behind `tensor`: those that a dimension of stride 0 repeats count once."""
    if tensor.layout is not STRIDED:  # sparse: as many as if it were not
        return tensor.numel() * tensor.element_size()
    if tensor.is_contiguous():
        return tensor.nbytes
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(size for size, stride in sizes if stride) * tensor.element_size()


def _tensors(values: Iterable) -> Iterable[Tensor]:
    """The tensors among `values`, in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _read(args: tuple, kwargs: dict) -> int:
    """The bytes of all inputs."""
    size = 0
    for value in args:
        if isinstance(value, Tensor):
            size += size_of(value)
        elif isinstance(value, list | tuple):
            size += sum(map(size_of, _tensors(value)))
    for key, value in kwargs.items():
        if key != "out":
            size += sum(map(size_of, _tensors((value,))))
    return size


def _written(out: Any) -> int:
    """The bytes of all results."""
    return size_of(out) if isinstance(out, Tensor) else sum(map(size_of, _tensors((out,))))


def _precision(tensor: Tensor) -> str:
    return PRECISIONS.get(tensor.dtype, "float32")


def _product_precision(tensor: Tensor, kind: str = "matmul") -> str:
    """The precision of a product: tf32 where PyTorch's settings allow it for float32."""
    if tensor.dtype is not torch.float32:
        return _precision(tensor)
    asked = torch._C._get_fp32_precision_getter("cuda", kind)
    return "tf32" if asked == "tf32" else "float32"


# Rules without parameters.


def nothing(args: tuple, kwargs: dict, out: Any) -> None:
    """A view, a question, or memory that is not written: no kernel."""
    return None


def bytes_alone(args: tuple, kwargs: dict, out: Any) -> Work:
    """An operator without a rule: its inputs read and its results written once."""
    return Work("other", 0.0, float(_read(args, kwargs) + _written(out)))


def written(args: tuple, kwargs: dict, out: Any) -> Work:
    """A result that is filled: written, nothing read."""
    return Work("pointwise", 0.0, float(_written(out)))


def copied(args: tuple, kwargs: dict, out: Any) -> Work:
    """Bytes moved: the source read, the result written."""
    source = args[1] if len(args) > 1 and isinstance(args[1], Tensor) else args[0]
    return Work("copy", 0.0, float(size_of(source) + _written(out)))


def joined(args: tuple, kwargs: dict, out: Any) -> Work:
    """cat, stack: everything read and written once."""
    return Work("copy", 0.0, 2.0 * _written(out))


def one_value(args: tuple, kwargs: dict, out: Any) -> Work:
    """A value taken to the host: a copy of its bytes."""
    return Work("copy", 0.0, float(args[0].element_size()))


def gathered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Rows or elements picked by an index: index read, picked bytes read and written.

    A mask is first made a list of places, a whole number for each of its dimensions, which is
    written and read (expandTensors in ATen/native/IndexingUtils.h).
    """
    index = sum(size_of(each) for each in _tensors(args[1:]) if not each.is_floating_point())
    masks = [each for each in _tensors(args[1:2]) if is_mask(each)]
    places = sum(8 * each.dim() * each.numel() for each in masks)
    listed = 2 * places * out.numel() // max(args[0].numel(), 1)
    kernels = 3 if masks else 1
    return Work("gather", 0.0, float(index + listed + 2 * _written(out)), kernels=kernels)


def scattered(args: tuple, kwargs: dict, out: Any) -> Work:
    """Elements changed where an index says, in a copy of the input unless done in place."""
    *index, source = [size_of(each) for each in _tensors((*args[1:], *kwargs.values()))]
    copying = 0 if out is args[0] else 2 * _written(out)
    kernels = 2 if copying else 1
    return Work("gather", 0.0, float(sum(index) + 3 * source + copying), kernels=kernels)


def embedding_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """The table's gradient: filled with zeros, then rows added."""
    size = _read(args[:2], {}) + 2 * size_of(args[0]) + _written(out)
    return Work("gather", 0.0, float(size), kernels=3)


def sort(args: tuple, kwargs: dict, out: Any) -> Work:
    """A radix sort: keys and 8-byte positions moved once for each byte of a key."""
    keys = args[0]
    passes = keys.element_size()
    moved = 2.0 * keys.numel() * (passes + 8) * passes
    return Work("other", 0.0, moved, kernels=2 + passes)


def foreach(args: tuple, kwargs: dict, out: Any) -> Work:
    """Lists of tensors in few kernels: about 36 tensors, or 320 chunks of 65536 elements, each.

    Source: PyTorch, ATen/native/cuda/MultiTensorApply.cuh.
    """
    results = list(_tensors((out,))) or list(_tensors(args[:1]))
    results_size = sum(map(size_of, results))
    elements = sum(each.numel() for each in _tensors(args[:1]))
    count = len(list(_tensors(args[:1])))
    kernels = max(1, ceil(count / 36), ceil(elements / (320 * 65536)))
    precision = _precision(results[0]) if results else "float32"
    size = float(_read(args, kwargs) + results_size)
    return Work("pointwise", 2.0 * elements, size, precision, kernels)


def fused_optimizer(args: tuple, kwargs: dict, out: Any) -> Work:
    """A whole step of an optimizer: each list read, all but the gradients written."""
    read, gradients = _read(args, kwargs), sum(map(size_of, _tensors((args[1],))))
    elements = sum(each.numel() for each in args[0])
    kernels = max(1, ceil(len(args[0]) / 36), ceil(elements / (320 * 65536)))
    return Work("pointwise", 12.0 * elements, float(2 * read - gradients), kernels=kernels)


# Products. Shapes are (batch, m, n, k).


def _product(batch: int, m: int, n: int, k: int, args: tuple, out: Any, sample: Tensor) -> Work:
    flops = 2.0 * batch * m * n * k
    size = float(_read(args, {}) + _written(out))
    return Work("matmul", flops, size, _product_precision(sample), 1, (batch, m, n, k))


def matmul(first: int) -> Rule:
    """mm, bmm and their kin: the factors are arguments `first` and `first` + 1."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        a, b = args[first], args[first + 1]
        *_, m, k = a.shape
        n = b.shape[-1] if b.dim() > 1 else 1
        batch = a.shape[0] if a.dim() > 2 else 1
        return _product(batch, m, n, k, args, out, a)

    return rule


def inverse(args: tuple, kwargs: dict, out: Any) -> Work:
    """The inverse of n x n matrices: 2 n^3 operations, those of LAPACK's getrf and getri."""
    n = args[0].shape[-1]
    return _product(args[0].numel() // max(1, n * n), n, n, n, args, out, args[0])


def dot(args: tuple, kwargs: dict, out: Any) -> Work:
    """The product of two vectors: two kernels, bound by memory."""
    size = float(_read(args, kwargs) + _written(out))
    return Work("reduction", 2.0 * args[0].numel(), size, _precision(args[0]), 2)


def _grouped(x: Tensor, weight: Tensor, out: Tensor, transposed: bool, groups: int) -> tuple:
    """A convolution as (batch, m, n, k): groups, positions, channels out, channels in x window."""
    window = prod(weight.shape[2:])
    if transposed:
        positions = x.shape[0] * prod(x.shape[2:])
        return groups, positions, weight.shape[1] * window, x.shape[1] // groups
    positions = out.shape[0] * prod(out.shape[2:])
    return groups, positions, weight.shape[0] // groups, weight.shape[1] * window


def _channels_last(x: Tensor, weight: Tensor) -> bool:
    """True if channels lie side by side in either: cuDNN then works in that layout."""
    if x.dim() != 4:
        return False
    beside = [each.is_contiguous(memory_format=torch.channels_last) for each in (x, weight)]
    return beside[0] or (beside[1] and weight.stride(3) > 1)  # 1 x 1 filters are both


def _convolution(shape: tuple, products: int, size: float, x: Tensor, weight: Tensor) -> Work:
    batch, m, n, k = shape
    flops = 2.0 * products * batch * m * n * k
    precision = _product_precision(x, "conv")
    if batch > 1 and n == 1:  # one channel a group: no product, done without tensor cores
        return Work("pointwise", flops, size, _precision(x), products)
    kernels = products
    if "float16" in precision and not _channels_last(
        x, weight
    ):  # as tensor cores want inputs, results
        size *= 3
        kernels += 2
    return Work("convolution", flops, size, precision, kernels, shape)


def convolution(groups: int, transposed: int | None = None) -> Rule:
    """A convolution as an implicit product; of how many groups, and which way, two arguments say.

    Source: cuDNN, https://arxiv.org/abs/1410.0759.
    """

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        x, weight = args[:2]
        backwards = transposed is not None and args[transposed]
        shape = _grouped(x, weight, out, backwards, args[groups])
        return _convolution(shape, 1, float(_read(args, kwargs) + _written(out)), x, weight)

    return rule


def convolution_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """As many flops as forward for each of the two gradients that are asked for."""
    grad, x, weight = args[:3]
    transposed, groups, mask = args[7], args[9], args[10]
    products = max(1, int(mask[0]) + int(mask[1]))
    shape = _grouped(x, weight, grad, transposed, groups)
    size = products * size_of(grad) + size_of(x) * mask[1] + size_of(weight) * mask[0]
    return _convolution(shape, products, float(size + _written(out)), x, weight)


def attention(products: int, first: int) -> Rule:
    """Fused attention, queries and keys from argument `first` on: half the flops if causal.

    Source: torch.utils.flop_counter; FlashAttention-2, https://arxiv.org/abs/2307.08691.
    """

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        query, key = args[first], args[first + 1]
        *batch, rows, size = query.shape
        causal = kwargs.get("is_causal") or any(each is True for each in args)
        flops = 2.0 * products * prod(batch) * rows * key.shape[-2] * size
        moved = float(_read(args, {}) + _written(out))
        return Work("attention", flops / 2 if causal else flops, moved, _product_precision(query))

    return rule


def softmax(args: tuple, kwargs: dict, out: Any) -> Work:
    """Read once where a row fits into a processor, else thrice: maximum, sum, result.

    Source: PyTorch, ATen/native/cuda/SoftMax.cu; 48 KiB are what every processor has.
    """
    x, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
    row = x.shape[dim] * x.element_size() if x.dim() else 0
    size = float((3 if row > 48 * 2**10 else 1) * size_of(x) + _written(out))
    return Work("reduction", 10.0 * x.numel(), size, _precision(x))


def batch_norm(args: tuple, kwargs: dict, out: Any) -> Work:
    """The input read for its mean and variance where they are not given, then once more."""
    x, training = args[0], any(each is True for each in args[3:])
    size = float((2 if training else 1) * size_of(x) + _written(out))
    return Work("reduction", 8.0 * x.numel(), size, _precision(x), 2 if training else 1)


# Rules with parameters: functions that make a rule.


def pointwise(price: float) -> Rule:
    """Every input read and every result written once; `price` flops an element."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        size = 0
        for each in args:
            if isinstance(each, Tensor):
                size += size_of(each)
        if kwargs:
            size += _read((), kwargs)
        if isinstance(out, Tensor):
            size += size_of(out)
            precision = PRECISIONS.get(out.dtype, "float32")
            return Work("pointwise", price * out.numel(), float(size), precision)
        results = list(_tensors((out,)))
        size += sum(map(size_of, results))
        elements = results[0].numel() if results else 0
        return Work("pointwise", price * elements, float(size))

    return rule


_divided, _multiplied = pointwise(4), pointwise(1)


def division(args: tuple, kwargs: dict, out: Any) -> Work:
    """By a number, a product with its reciprocal: ATen/native/cuda/BinaryDivTrueKernel.cu."""
    return (_divided if isinstance(args[1], Tensor) else _multiplied)(args, kwargs, out)


def reduction(price: float = 1, kernels: int = 1, times: float = 1) -> Rule:
    """The inputs read `times` times, the results written; `price` flops an element read."""

    def rule(args: tuple, kwargs: dict, out: Any) -> Work:
        x = next(iter(_tensors(args)))
        size = times * _read(args, kwargs) + _written(out)
        return Work("reduction", price * x.numel(), float(size), _precision(x), kernels)

    return rule


def picked(args: tuple, kwargs: dict, out: Any) -> Work:
    """Losses that read one element a row: targets, elements, and what is written."""
    few = tuple(each for each in args if isinstance(each, Tensor) and each.dim() < 2)
    size = _read(few, kwargs)
    return Work("gather", 0.0, float(size + _written(out)))


def is_mask(index: Tensor) -> bool:
    """True if it says of each element whether it is picked."""
    return index.dtype in (torch.bool, torch.uint8)
