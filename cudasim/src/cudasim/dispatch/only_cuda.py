"""What CUDA's kernels compute and the CPU's refuse, other than by dtype (see `dtypes`).

Each function runs around the rules of the operators that its decorator names. It leaves
to them, by calling `inner`, whatever is not on a simulated CUDA GPU.
"""

from collections.abc import Callable
from ctypes import c_float
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import all_arguments, tensors_in
from cudasim.dispatch.operators import Rule, layer, name_of
from cudasim.dispatch.placement import general, tag_results
from cudasim.dispatch.promotion import common_float
from cudasim.dispatch.tags import gpu_of, is_on_cuda, put
from cudasim.torch_private.operators import schema_of
from cudasim.words import WORDS

aten = torch.ops.aten

SVD_DRIVERS = ("gesvd", "gesvdj", "gesvda")  # of cuSOLVER
REMAINDERS = ("remainder", "fmod")
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
ROUNDED_DIVISIONS = (
    aten.div.Tensor_mode,
    aten.div.Scalar_mode,
    aten.div_.Tensor_mode,
    aten.div_.Scalar_mode,
)


@layer("_linalg_svd")
def svd(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Accept cuSOLVER's drivers, which differ in speed only: the CPU has one."""
    driver = kwargs.get("driver")
    if driver is None or not is_on_cuda(args[0]):
        return inner(func, args, kwargs)
    if driver not in SVD_DRIVERS:
        raise RuntimeError(WORDS["kernels"]["svd driver"].format(driver))
    return inner(func, args, {**kwargs, "driver": None})


@layer("linalg_lu", "linalg_lu_factor_ex")
def lu(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Decompose a matrix without pivoting, which the CPU's kernel cannot do."""
    if kwargs.get("pivot", True) or not is_on_cuda(args[0]):
        return inner(func, args, kwargs)
    factors = _factorize(args[0])
    if func is aten.linalg_lu_factor_ex.default:
        pivots, info = _pivots_and_info(factors)
        out = (factors, pivots, info)
    else:
        no_permutation = factors.new_empty(0)
        lower, upper = _triangles(factors)
        out = (no_permutation, lower, upper)
    return tag_results(out, gpu_of(args[0]))


def _factorize(matrix: Tensor) -> Tensor:
    """Return both factors of an LU decomposition without pivoting in one matrix."""
    factors = matrix.clone()
    for step in range(min(factors.shape[-2:])):
        rest = slice(step + 1, None)
        pivot = factors[..., step, step, None, None]
        below = factors[..., rest, step, None]
        right = factors[..., None, step, rest]
        below.div_(pivot)
        factors[..., rest, rest].sub_(below * right)
    return factors


def _pivots_and_info(factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return LAPACK's pivots, and the number of the first pivot that is zero, or 0."""
    batch = factors.shape[:-2]
    size = min(factors.shape[-2:])
    in_order = torch.arange(1, size + 1, dtype=torch.int32)
    pivots = in_order.expand(*batch, size).contiguous()
    if not size:
        return pivots, torch.zeros(batch, dtype=torch.int32)

    is_zero = factors.diagonal(dim1=-2, dim2=-1) == 0
    first_zero = is_zero.int().argmax(-1) + 1
    info = first_zero * is_zero.any(-1)
    return pivots, info.int()


def _triangles(factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower factor, with ones on its diagonal, and the upper one."""
    rows = factors.shape[-2]
    size = min(factors.shape[-2:])
    ones = torch.eye(rows, size, dtype=factors.dtype)
    lower = factors[..., :size].tril(-1) + ones
    upper = factors[..., :size, :].triu()
    return lower, upper


@layer("_embedding_bag", "_embedding_bag_forward_only", idle=lambda args: True)
def embedding_bag(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Begin the first bag with the first word, which the CPU requires and CUDA does.

    See "forces first offset to be 0 instead of asserting on it" in PyTorch's
    aten/src/ATen/native/cuda/EmbeddingBag.cu.
    """
    weight, words, offsets, *others = args
    if not is_on_cuda(weight) or gpu_of(offsets) is None or not offsets.numel():
        return inner(func, args, kwargs)
    if int(offsets[0]) != 0:
        offsets = put(offsets.clone(), gpu_of(offsets))
        offsets[0] = 0
    return inner(func, (weight, words, offsets, *others), kwargs)


@layer("index_select", idle=lambda args: True)
def select_nothing(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Take an index of any dtype if nothing is selected: CUDA does not look at it then.

    See `index_select_out_cuda_impl` in aten/src/ATen/native/cuda/Indexing.cu.
    """
    numbers, dim, index = args[:3]
    selects_nothing = not (numbers.numel() and index.numel())
    if is_on_cuda(numbers) and selects_nothing and index.dtype.is_floating_point:
        index = put(index.long(), gpu_of(index))
    return inner(func, (numbers, dim, index, *args[3:]), kwargs)


@layer("kthvalue")
def first_of_equals(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return the smallest index of numbers that are equal, where the CPU returns any.

    See `gatherKthValue` in aten/src/ATen/native/cuda/Sorting.cu since
    https://github.com/pytorch/pytorch/pull/165762, which 2.11 and later have.
    """
    numbers = args[0]
    values, indices = out = inner(func, args, kwargs)
    if not is_on_cuda(numbers) or numbers.dim() == 0 or numbers.numel() == 0:
        return out

    named = all_arguments(func, args, kwargs)
    dim, keepdim = named["dim"], named["keepdim"]
    wanted = values if keepdim else values.unsqueeze(dim)
    is_equal = numbers == wanted
    if numbers.is_floating_point():
        is_equal |= numbers.isnan() & wanted.isnan()
    # Of several largest numbers `argmax` returns the first. It takes no bool.
    indices.copy_(is_equal.byte().argmax(dim, keepdim))
    return out


@layer("floor_divide", *ROUNDED_DIVISIONS, *REMAINDERS)
def divide_by_zero(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Divide integers by zero, which no GPU refuses.

    Here the quotient then has ones in all bits, and the remainder is the dividend. CUDA
    leaves both undefined.
    """
    first, second = args[:2]
    if "out" in kwargs or not _are_integers_on_cuda(first, second):
        return inner(func, args, kwargs)
    is_zero = torch.as_tensor(second) == 0
    if not is_zero.any():
        return inner(func, args, kwargs)

    divisor = 1  # without the zeros, and where it was: the operator compares devices
    if isinstance(second, Tensor):
        divisor = put(torch.where(is_zero, 1, second), gpu_of(second))
    quotient = inner(_not_in_place(func), (first, divisor, *args[2:]), kwargs)
    replacement = first if name_of(func) in REMAINDERS else -1
    out = torch.where(is_zero, replacement, quotient)
    tag_results(out, gpu_of(quotient))
    is_in_place = schema_of(func).name.endswith("_")
    return first.copy_(out) if is_in_place else out


def _are_integers_on_cuda(first: Any, second: Any) -> bool:
    if isinstance(second, float):
        return False
    tensors = tensors_in((first, second))
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            return False
        if tensor.dtype in WIDE_UNSIGNED:  # which the kernels of divisions refuse
            return False
    return any(map(is_on_cuda, tensors))


def _not_in_place(func: Callable) -> Callable:
    """Return the form of an operator that makes a new tensor."""
    packet = getattr(aten, name_of(func))
    overload = schema_of(func).overload_name
    if overload not in packet.overloads():
        overload = "default"
    return getattr(packet, overload)


# Divisions -> the multiplications of the same kind.
MULTIPLICATIONS = {
    aten.div.Tensor: aten.mul.Tensor,
    aten.div.Scalar: aten.mul.Scalar,
    aten.div_.Tensor: aten.mul_.Tensor,
    aten.div_.Scalar: aten.mul_.Scalar,
}
# The real numbers that the kernel divides.
DIVIDED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@layer(*MULTIPLICATIONS)
def divide_by_number(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Divide by a number as CUDA does: by a product with its reciprocal.

    See `div_true_kernel_cuda` of PyTorch's aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu.
    """
    first, second = args[:2]
    if not _is_plain_on_cuda(first) or not _is_number(second):
        return inner(func, args, kwargs)
    dtype = common_float((first, second))
    if dtype not in DIVIDED:
        return inner(func, args, kwargs)

    reciprocal = _reciprocal(second, dtype)
    if torch.result_type(first, reciprocal) is dtype:
        return general(MULTIPLICATIONS[func], (first, reciprocal), kwargs)
    product = first * reciprocal  # before `first` may be written to
    return inner(func, args, kwargs).copy_(product)


def _reciprocal(number: Any, dtype: torch.dtype) -> float:
    """Return 1 / `number`, rounded as the kernel for results of `dtype` rounds it."""
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    if type(number) is float and wide is torch.float32:
        rounded = c_float(number).value
        if rounded:  # the usual case, without the time that tensors take
            return c_float(1 / rounded).value
    return (1 / torch.as_tensor(number, dtype=wide)).item()


def _is_plain_on_cuda(value: Any) -> bool:
    if not is_on_cuda(value):
        return False
    return value.layout is torch.strided and not value.is_meta


def _is_number(value: Any) -> bool:
    """Return whether `value` is a number for CUDA: one of Python or of the CPU."""
    if not isinstance(value, Tensor):
        return True
    return value.dim() == 0 and gpu_of(value) is None
