"""Rules for the work of PyTorch's operators, one for each family of them.

A rule works out what a call does from shapes, types and layouts alone. The bytes are
those that a kernel has to read and write at least, or as often as the rule says, whatever
the caches hold. The flops of products, convolutions and attention are those of
torch.utils.flop_counter.

To give a new operator a rule, add its name to a row of `operators.json`:

    {"rule": "pointwise", "options": {"price": 10}, "operators": ["exp", "log"]}

A row names a function of this module and the options to call it with. If none fits, write
one here that takes (args, kwargs, out) and returns a `Work`, give it a row of its own, and
check it in `tests/test_costs.py` against a call whose work you have counted by hand.
"""

from collections.abc import Callable, Iterator
from math import ceil, prod
from typing import Any

import torch
from torch import Tensor

from cudasim.timing.formulas import Work
from cudasim.torch_private.devices import read_fp32_precision

# (arguments, keyword arguments, result) -> the work, or None for no kernel
Rule = Callable[..., Work | None]

# Tensors of any other type take as long as those of float32.
PRECISIONS = {
    torch.float64: "float64",
    torch.complex128: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.uint8: "int8",
}
ROW = 48 * 2**10  # bytes of the longest row that fits into a processor
POSITION = 8  # bytes of a position in a tensor
# One kernel for a list takes at most so many tensors and elements, in chunks of 65536
# (ATen/native/cuda/MultiTensorApply.cuh).
TENSORS_PER_KERNEL = 36
ELEMENTS_PER_KERNEL = 320 * 65536


def tensors(*values: Any) -> Iterator[Tensor]:
    """Yield the tensors among `values`, those in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(*value)


def size_of(*values: Any) -> int:
    """Return the bytes behind the tensors among `values`.

    Numbers that a stride of 0 repeats are counted once.
    """
    size = 0
    for tensor in tensors(*values):
        size += _stored_elements(tensor) * tensor.element_size()
    return size


def _stored_elements(tensor: Tensor) -> int:
    # A sparse tensor counts as if it were dense.
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return tensor.numel()
    dimensions = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(length for length, stride in dimensions if stride)


def _input_size(args: tuple, kwargs: dict) -> int:
    """Return the bytes that a kernel fetches for its operands.

    A tensor that is an operand twice, as in `A + A`, is fetched once: the second read of
    each number finds it in the cache.
    """
    inputs = [value for name, value in kwargs.items() if name != "out"]
    by_identity = {id(tensor): tensor for tensor in tensors(*args, *inputs)}
    return size_of(*by_identity.values())


def is_mask(index: Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def _precision(tensor: Tensor) -> str:
    return PRECISIONS.get(tensor.dtype, "float32")


def _product_precision(tensor: Tensor, product: str) -> str:
    """Return the precision of a `product` ("matmul" or "conv") with `tensor`.

    In float32 it is tf32 where PyTorch's settings allow that.
    """
    if tensor.dtype is torch.float32:
        allowed = read_fp32_precision("cuda", product)
        return "tf32" if allowed == "tf32" else "float32"
    return _precision(tensor)


# Memory


def no_work(args: tuple, kwargs: dict, out: Any) -> None:
    """Launch no kernel: a view, a question, or memory that is not written."""


def traffic(
    args: tuple,
    kwargs: dict,
    out: Any,
    kind: str = "other",
    reads: list[int] | None = None,
    written: int = 1,
    kernels: int = 1,
) -> Work:
    """Read and write bytes, and compute nothing.

    Every input is read once, unless `reads` says how often each of the first arguments
    is. The results are written `written` times.
    """
    if reads is None:
        size = _input_size(args, kwargs)
    else:
        size = 0
        for times, argument in zip(reads, args, strict=False):
            size += times * size_of(argument)
    size += written * size_of(out)
    return Work(kind, 0.0, float(size), kernels=kernels)


def one_value(args: tuple, kwargs: dict, out: Any) -> Work:
    """Copy a single number."""
    return Work("copy", 0.0, float(args[0].element_size()))


def gather(args: tuple, kwargs: dict, out: Any) -> Work:
    """Pick rows or elements by an index: read the index, read and write what is picked.

    A mask is first turned into a list of positions, a whole number for each of its
    dimensions, which is written and read (expandTensors in
    ATen/native/IndexingUtils.h).
    """
    source, *others = args
    indices = []
    for tensor in tensors(*others):
        if not tensor.is_floating_point():
            indices.append(tensor)
    masks = list(filter(is_mask, tensors(*others[:1])))

    positions = 0  # bytes, if all elements were picked
    for mask in masks:
        positions += POSITION * mask.dim() * mask.numel()
    listed = 2 * positions * out.numel() // max(source.numel(), 1)
    size = float(size_of(indices) + listed + 2 * size_of(out))
    return Work("gather", 0.0, size, kernels=3 if masks else 1)


def scatter(args: tuple, kwargs: dict, out: Any) -> Work:
    """Change elements by an index, in a copy of the input unless done in place."""
    *indices, source = tensors(*args[1:], *kwargs.values())
    size = size_of(indices) + 3 * size_of(source)
    kernels = 1
    if out is not args[0]:
        size += 2 * size_of(out)
        kernels = 2
    return Work("gather", 0.0, float(size), kernels=kernels)


def target_loss(args: tuple, kwargs: dict, out: Any) -> Work:
    """Compute a loss that reads one element of each row, the one its target names."""
    vectors = []
    for value in args:
        if isinstance(value, Tensor) and value.dim() < 2:
            vectors.append(value)
    return traffic(tuple(vectors), kwargs, out, "gather")


def sort(args: tuple, kwargs: dict, out: Any) -> Work:
    """Sort by radix: move keys and positions once for each byte of a key."""
    keys = args[0]
    passes = keys.element_size()
    size = 2.0 * keys.numel() * (passes + POSITION) * passes
    return Work("other", 0.0, size, kernels=2 + passes)


# Elements


def pointwise(args: tuple, kwargs: dict, out: Any, price: float = 1) -> Work:
    """Read every input and write every result once, with `price` flops per element.

    The prices are rough classes, and matter where the CPU computes.
    """
    first_result = next(tensors(out), None)
    elements = 0 if first_result is None else first_result.numel()
    precision = _precision(out) if isinstance(out, Tensor) else "float32"
    size = float(_input_size(args, kwargs) + size_of(out))
    return Work("pointwise", price * elements, size, precision)


def division(args: tuple, kwargs: dict, out: Any) -> Work:
    """Divide; a division by a number is a product with its reciprocal.

    See ATen/native/cuda/BinaryDivTrueKernel.cu.
    """
    price = 4 if isinstance(args[1], Tensor) else 1
    return pointwise(args, kwargs, out, price)


def foreach(args: tuple, kwargs: dict, out: Any) -> Work:
    """Do something to every tensor of a list."""
    listed = list(tensors(*args[:1]))
    results = list(tensors(out)) or listed
    precision = _precision(results[0]) if results else "float32"
    size = float(_input_size(args, kwargs) + size_of(results))
    flops = 2.0 * _count_elements(listed)
    return Work("pointwise", flops, size, precision, _count_kernels(listed))


def fused_optimizer(args: tuple, kwargs: dict, out: Any) -> Work:
    """Make a whole step of an optimizer: read every list, write all but the gradients."""
    parameters, gradients = args[:2]
    flops = 12.0 * _count_elements(parameters)
    size = float(2 * _input_size(args, kwargs) - size_of(gradients))
    return Work("pointwise", flops, size, kernels=_count_kernels(parameters))


def _count_elements(listed: list[Tensor]) -> int:
    return sum(tensor.numel() for tensor in listed)


def _count_kernels(listed: list[Tensor]) -> int:
    by_tensors = ceil(len(listed) / TENSORS_PER_KERNEL)
    by_elements = ceil(_count_elements(listed) / ELEMENTS_PER_KERNEL)
    return max(1, by_tensors, by_elements)


# Reductions


def reduction(
    args: tuple,
    kwargs: dict,
    out: Any,
    price: float = 1,
    kernels: int = 1,
    times: int = 1,
) -> Work:
    """Read the inputs `times` times and write the results, with `price` flops per input."""
    x = next(tensors(*args))
    size = float(times * _input_size(args, kwargs) + size_of(out))
    return Work("reduction", price * x.numel(), size, _precision(x), kernels)


def softmax(args: tuple, kwargs: dict, out: Any) -> Work:
    """Read a row once if it fits into a processor, else three times.

    See ATen/native/cuda/SoftMax.cu.
    """
    x = args[0]
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    row = x.shape[dim] * x.element_size() if x.dim() else 0
    times = 3 if row > ROW else 1
    return reduction(args, kwargs, out, price=10, times=times)


def batch_norm(args: tuple, kwargs: dict, out: Any) -> Work:
    """Read the input once, and before that for its mean and variance while training."""
    training = any(argument is True for argument in args[3:])
    times = 2 if training else 1
    return reduction(args[:1], {}, out, price=8, kernels=times, times=times)


# Products


def _product(shape: tuple, args: tuple, out: Any, factor: Tensor) -> Work:
    flops = 2.0 * prod(shape)
    size = float(size_of(args, out))
    precision = _product_precision(factor, "matmul")
    return Work("matmul", flops, size, precision, shape=shape)


def matmul(args: tuple, kwargs: dict, out: Any, first: int = 0) -> Work:
    """Multiply arguments `first` and `first` + 1, as mm, bmm and their kin do."""
    a, b = args[first : first + 2]
    batch = a.shape[0] if a.dim() > 2 else 1
    columns = b.shape[-1] if b.dim() > 1 else 1
    shape = (batch, a.shape[-2], columns, a.shape[-1])
    return _product(shape, args, out, a)


def inverse(args: tuple, kwargs: dict, out: Any) -> Work:
    """Invert n x n matrices with 2 n^3 flops, as LAPACK's getrf and getri do."""
    matrices = args[0]
    n = matrices.shape[-1]
    batch = matrices.numel() // max(1, n * n)
    return _product((batch, n, n, n), args, out, matrices)


def convolution(
    args: tuple, kwargs: dict, out: Any, groups: int, transposed: int | None = None
) -> Work:
    """Convolve by an implicit product (cuDNN, https://arxiv.org/abs/1410.0759).

    `groups` and `transposed` are the places of the arguments of these names.
    """
    x, weight = args[:2]
    is_transposed = transposed is not None and args[transposed]
    shape = _convolution_shape(x, weight, out, is_transposed, args[groups])
    size = _input_size(args, kwargs) + size_of(out)
    return _convolution(x, weight, shape, size)


def convolution_backward(args: tuple, kwargs: dict, out: Any) -> Work:
    """Compute one or two gradients, each with as many flops as the forward pass."""
    gradient, x, weight = args[:3]
    transposed, groups = args[7], args[9]
    needs_x, needs_weight = args[10][:2]

    products = max(1, int(needs_x) + int(needs_weight))
    size = products * size_of(gradient) + size_of(out)
    if needs_weight:
        size += size_of(x)
    if needs_x:
        size += size_of(weight)
    shape = _convolution_shape(x, weight, gradient, transposed, groups)
    return _convolution(x, weight, shape, size, products)


def _convolution_shape(
    x: Tensor, weight: Tensor, out: Tensor, transposed: bool, groups: int
) -> tuple[int, int, int, int]:
    """Return the product's groups, positions, channels out, and channels in by window."""
    window = prod(weight.shape[2:])
    channels = weight.shape[0] // groups
    if transposed:
        positions = x.shape[0] * prod(x.shape[2:])
        return groups, positions, weight.shape[1] * window, channels
    positions = out.shape[0] * prod(out.shape[2:])
    return groups, positions, channels, weight.shape[1] * window


def _convolution(
    x: Tensor,
    weight: Tensor,
    shape: tuple[int, int, int, int],
    size: int,
    products: int = 1,
) -> Work:
    groups, _, channels_out, _ = shape
    flops = 2.0 * products * prod(shape)
    if groups > 1 and channels_out == 1:
        # This is no product, and tensor cores do not help.
        return Work("pointwise", flops, float(size), _precision(x), products)
    precision = _product_precision(x, "conv")
    kernels = products
    if "float16" in precision and not _is_channels_last(x, weight):
        # Inputs and results are rearranged as tensor cores need them.
        size *= 3
        kernels += 2
    return Work("convolution", flops, float(size), precision, kernels, shape)


def _is_channels_last(x: Tensor, weight: Tensor) -> bool:
    """Return whether cuDNN works in the layout with a pixel's channels side by side.

    It does if either tensor has it. Filters of 1 x 1 have both layouts, and do not
    count.
    """
    if x.dim() != 4:
        return False
    if x.is_contiguous(memory_format=torch.channels_last):
        return True
    filters = weight.is_contiguous(memory_format=torch.channels_last)
    return filters and weight.stride(3) > 1


def attention(
    args: tuple, kwargs: dict, out: Any, products: int, first: int, is_causal: int
) -> Work:
    """Compute fused attention (https://arxiv.org/abs/2307.08691).

    Arguments `first` and `first` + 1 are the queries and the keys. `is_causal` is the
    place of the argument of this name, which halves the work.
    """
    query, key = args[first : first + 2]
    flops = 2.0 * products * prod(query.shape) * key.shape[-2]
    if len(args) > is_causal:
        causal = args[is_causal]
    else:
        causal = kwargs.get("is_causal", False)
    if causal:
        flops /= 2
    size = float(size_of(args, out))
    return Work("attention", flops, size, _product_precision(query, "matmul"))


def packed_attention(
    args: tuple,
    kwargs: dict,
    out: Any,
    products: int,
    first: int,
    begins: int,
    causal: int,
) -> Work:
    """Compute attention within sequences that are packed in one tensor.

    `begins` is the place of the tensor that says where each sequence of queries begins,
    before that of the keys and the longest of both. `causal` is the place of what is true,
    or not 0, for causal attention, which halves the work.
    """
    query = args[first]
    pairs = 0
    for queries, keys in packed_lengths(args, first, begins):
        pairs += queries * keys
    heads, numbers = query.shape[-2:]
    flops = 2.0 * products * heads * numbers * pairs
    if args[causal]:
        flops /= 2
    size = float(size_of(args, out))
    return Work("attention", flops, size, _product_precision(query, "matmul"))


def packed_lengths(args: tuple, first: int, begins: int) -> list[tuple[int, int]]:
    """Return the numbers of queries and keys of each sequence of packed attention."""
    lengths = []
    for place in (0, 1):
        tensor = args[first + place]
        starts = args[begins + place]
        longest = args[begins + 2 + place]
        lengths.append(_lengths(tensor, starts, longest))
    return list(zip(*lengths, strict=True))


def _lengths(tensor: Tensor, starts: Tensor | None, longest: int | None) -> list[int]:
    if starts is None:  # (batch, length, heads, numbers)
        return [tensor.shape[1]] * tensor.shape[0]
    if (
        starts.is_meta
    ):  # so no sequence is longer, which torch.utils.flop_counter takes too
        return [longest] * (len(starts) - 1)
    return starts.diff().tolist()


def encoder_layer(args: tuple, kwargs: dict, out: Any) -> Work:
    """Compute a layer of a transformer without gradients, in PyTorch's fused form.

    Its kernels are those of `transformer_encoder_layer_forward` in
    aten/src/ATen/native/transformers/transformer.cpp: two norms, the products for queries,
    keys and values, attention, three more products and two sums.
    """
    x, width = args[:2]
    rows = x.numel() // max(1, width)
    length = x.shape[-2]
    weights = [args[3], args[5], args[14], args[16]]
    flops = 4.0 * rows * length * width  # attention: scores, and sums of values
    for weight in weights:
        flops += 2.0 * rows * weight.numel()
    hidden = args[14].shape[0]
    # Numbers of a row that kernels read and write: 26 times its width for norms, attention,
    # sums and the products around them, and twice what stands between the last two products.
    traffic = rows * (26 * width + 2 * hidden) * x.element_size()
    size = float(traffic + size_of(weights))
    shape = (1, rows, hidden, width)
    precision = _product_precision(x, "matmul")
    return Work("matmul", flops, size, precision, 10, shape)


def recurrent(
    args: tuple, kwargs: dict, out: Any, mode: int, products: int = 1
) -> Work:
    """Compute a stack of recurrent layers (cuDNN, https://arxiv.org/abs/1604.01946).

    In each layer the products with the input are one kernel for all steps, and those with
    the state follow step by step. Weights are read once for each step that needs them. The
    argument `mode` is at the place of this name; the number of layers and whether they are
    bidirectional follow it. Backward takes two `products` for each of those.
    """
    x, weights = args[:2]
    layers = args[mode + 3] * (2 if args[mode + 7] else 1)
    per_layer = len(weights) // layers
    batch_sizes = args[mode + 8]
    if batch_sizes:
        steps, rows = len(batch_sizes), sum(batch_sizes)
    else:
        steps = x.shape[1] if args[mode + 4] else x.shape[0]
        rows = x.shape[0] * x.shape[1]

    flops = 0
    size = size_of(x, out)
    for place, weight in enumerate(weights):
        if weight.dim() > 1:
            flops += 2 * products * rows * weight.numel()
            is_for_input = place % per_layer == 0
            size += products * size_of(weight) * (1 if is_for_input else steps)
    batch = max(1, rows // max(1, steps))
    hidden_weight = weights[1]
    shape = (1, batch, hidden_weight.shape[0], hidden_weight.shape[1])
    kernels = products * layers * (1 + steps)
    precision = _product_precision(x, "rnn")
    return Work("matmul", float(flops), float(size), precision, kernels, shape)
