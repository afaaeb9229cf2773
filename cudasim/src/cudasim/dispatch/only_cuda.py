"""What CUDA's kernels compute and the CPU's refuse, beside types: those are in `dtypes`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.operators import Rule, around, name_of, operator_of
from cudasim.dispatch.placement import general, settle
from cudasim.dispatch.tags import gpu_of, put
from cudasim.session import session
from cudasim.words import WORDS

aten = torch.ops.aten

SVD_DRIVERS = ("gesvd", "gesvdj", "gesvda")  # of cuSOLVER
REMAINDERS = ("remainder", "fmod")
ROUNDED = (
    aten.div.Tensor_mode,
    aten.div.Scalar_mode,
    aten.div_.Tensor_mode,
    aten.div_.Scalar_mode,
)


def on_cuda(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and session.type.lists_kernels
        and gpu_of(value) is not None
    )


@around("_linalg_svd")
def svd(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """cuSOLVER's drivers differ in speed: the CPU has one for all of them."""
    driver = kwargs.get("driver")
    if driver is None or not on_cuda(args[0]):
        return inner(func, args, kwargs)
    if driver not in SVD_DRIVERS:
        raise RuntimeError(WORDS["kernels"]["svd driver"].format(driver))
    return inner(func, args, {**kwargs, "driver": None})


@around("linalg_lu", "linalg_lu_factor_ex")
def lu(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """An LU decomposition; the CPU has none without pivoting."""
    if kwargs.get("pivot", True) or not on_cuda(args[0]):
        return inner(func, args, kwargs)
    matrix = args[0].clone()
    rows, size = matrix.shape[-2], min(matrix.shape[-2:])
    for step in range(size):
        below, right = (
            matrix[..., step + 1 :, step, None],
            matrix[..., None, step, step + 1 :],
        )
        below.div_(matrix[..., step, step, None, None])
        matrix[..., step + 1 :, step + 1 :].sub_(below * right)
    if func is aten.linalg_lu_factor_ex.default:
        pivots = torch.arange(1, size + 1, dtype=torch.int32).expand(
            *matrix.shape[:-2], size
        )
        zero = matrix.diagonal(dim1=-2, dim2=-1) == 0
        first = zero.int().argmax(-1) + 1 if size else torch.zeros(matrix.shape[:-2])
        found = matrix, pivots.contiguous(), (first * zero.any(-1)).int()
    else:
        lower = matrix[..., :size].tril(-1) + torch.eye(rows, size, dtype=matrix.dtype)
        found = matrix.new_empty(0), lower, matrix[..., :size, :].triu()
    return settle(found, gpu_of(args[0]))


@around("cudnn_convolution")
def cudnn_convolution(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """cuDNN's own name for a convolution, whose last arguments choose among its kernels."""
    if not on_cuda(args[0]):
        return inner(func, args, kwargs)
    image, weight, padding, stride, dilation, groups, *_ = args
    given = (
        image,
        weight,
        None,
        stride,
        padding,
        dilation,
        False,
        [0] * len(stride),
        groups,
    )
    convolve = operator_of(aten.convolution.default).rule or general
    return convolve(aten.convolution.default, given, {})


@around("floor_divide", *ROUNDED, *REMAINDERS)
def divide(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A division of integers, which no GPU refuses: by zero it gives ones in all bits, and the
    remainder is the dividend. CUDA leaves both undefined."""
    first, second = args[:2]
    tensors = tensors_in((first, second))
    exact = not any(each.is_floating_point() or each.is_complex() for each in tensors)
    if (
        "out" in kwargs
        or not exact
        or isinstance(second, float)
        or not any(map(on_cuda, tensors))
    ):
        return inner(func, args, kwargs)
    zero = torch.as_tensor(second) == 0
    if not zero.any():
        return inner(func, args, kwargs)
    name, overload = name_of(func), func._overloadname
    packet = getattr(aten, name)
    plain = getattr(packet, overload if overload in packet.overloads() else "default")
    one = (
        put(torch.where(zero, 1, second), gpu_of(second))
        if isinstance(second, Tensor)
        else 1
    )
    found = inner(plain, (first, one, *args[2:]), kwargs)  # which compares devices
    found = settle(
        torch.where(zero, first if name in REMAINDERS else -1, found), gpu_of(found)
    )
    return first.copy_(found) if func._schema.name.endswith("_") else found


@around(aten.div.Tensor, aten.div_.Tensor, aten.div.Scalar, aten.div_.Scalar)
def by_number(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A division by a number, which CUDA computes as a product with its reciprocal.
    `div_true_kernel_cuda` of PyTorch's aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu."""
    first, second = args[:2]
    number = not isinstance(second, Tensor) or (
        second.dim() == 0 and gpu_of(second) is None
    )
    if (
        not number
        or not on_cuda(first)
        or first.layout is not torch.strided
        or first.is_meta
    ):
        return inner(func, args, kwargs)
    exact = torch.result_type(first, second)
    if exact.is_complex:
        return inner(func, args, kwargs)
    wide = torch.float64 if exact is torch.float64 else torch.float32
    reciprocal = (1 / torch.as_tensor(second, dtype=wide)).item()
    product = first * reciprocal  # before `first` may be written to
    return inner(func, args, kwargs).copy_(product)
