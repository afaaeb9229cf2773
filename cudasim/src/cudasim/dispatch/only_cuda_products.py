"""Products of matrices that CUDA alone has: those with a dtype for the result.

The checks are those of aten/src/ATen/native/cuda/Blas.cpp. cuBLAS adds up numbers of 16
bits in `float32`, and rounds them once to the dtype of the result.
"""

import torch
from torch import Tensor

from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.operators import substitute
from cudasim.dispatch.substitutes import require, write
from cudasim.words import WORDS

aten = torch.ops.aten
MESSAGES = WORDS["products"]
HALVES = (torch.float16, torch.bfloat16)


@substitute(aten.mm.dtype, aten.mm.dtype_out)
def mm(
    first: Tensor, second: Tensor, out_dtype: torch.dtype, *, out: Tensor | None = None
) -> Tensor:
    """Multiply two matrices (`_mm_dtype_out_cuda`)."""
    _check_matrix("self", first)
    _check_matrix("mat2", second)
    _check_shapes(first, second)
    require(first.dtype is second.dtype, "input dtypes must be the same")
    _check_result(first, out_dtype, out)
    wide_first, wide_second = _widen(out_dtype, first, second)
    return write(torch.mm(wide_first, wide_second), out)


@substitute(aten.bmm.dtype, aten.bmm.dtype_out)
def bmm(
    first: Tensor, second: Tensor, out_dtype: torch.dtype, *, out: Tensor | None = None
) -> Tensor:
    """Multiply matrices in batches (`_bmm_out_dtype_cuda`)."""
    _check_batches(first, second)
    _check_result(first, out_dtype, out)
    wide_first, wide_second = _widen(out_dtype, first, second)
    return write(torch.bmm(wide_first, wide_second), out)


@substitute(aten.addmm.dtype, aten.addmm.dtype_out)
def addmm(
    addend: Tensor,
    first: Tensor,
    second: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply two matrices and add a third (`_addmm_dtype_out_cuda`)."""
    _check_matrix("mat1", first)
    _check_matrix("mat2", second)
    _check_shapes(first, second)
    names = (CPP_NAMES[first.dtype], CPP_NAMES[second.dtype])
    require(first.dtype is second.dtype, MESSAGES["dtypes"].format(*names))
    _check_result(first, out_dtype, out)
    is_known = addend.dtype in (out_dtype, first.dtype)
    require(is_known, MESSAGES["addend"].format("mat1"))
    wide = _widen(out_dtype, addend, first, second)
    return write(torch.addmm(*wide, beta=beta, alpha=alpha), out)


@substitute(aten.baddbmm.dtype, aten.baddbmm.dtype_out)
def baddbmm(
    addend: Tensor,
    first: Tensor,
    second: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices in batches and add others (`_baddbmm_out_dtype_cuda`)."""
    is_known = addend.dtype in (out_dtype, first.dtype)
    require(is_known, MESSAGES["addend"].format("batch1"))
    _check_batches(first, second)
    _check_result(first, out_dtype, out)
    wide = _widen(out_dtype, addend, first, second)
    return write(torch.baddbmm(*wide, beta=beta, alpha=alpha), out)


def _check_matrix(name: str, tensor: Tensor) -> None:
    message = f"{name} must be a matrix, got {tensor.dim()}-D tensor"
    require(tensor.dim() == 2, message)


def _check_shapes(first: Tensor, second: Tensor) -> None:
    message = MESSAGES["shapes"].format(*first.shape, *second.shape)
    require(first.shape[1] == second.shape[0], message)


def _check_batches(first: Tensor, second: Tensor) -> None:
    require(first.dim() == 3, "batch1 must be a 3D tensor")
    require(second.dim() == 3, "batch2 must be a 3D tensor")
    batches, _, columns = first.shape
    message = MESSAGES["batches"].format(batches, columns, *second.shape[:2])
    require(second.shape[:2] == (batches, columns), message)
    message = "batch1 and batch2 must have the same dtype"
    require(first.dtype is second.dtype, message)


def _check_result(first: Tensor, out_dtype: torch.dtype, out: Tensor | None) -> None:
    """Check the dtype of a result, and the tensor that a program gives for it."""
    is_wider = out_dtype is torch.float32 and first.dtype in HALVES
    require(out_dtype is first.dtype or is_wider, MESSAGES["out_dtype"])
    if out is not None:
        require(out.dtype is out_dtype, MESSAGES["out"])


def _widen(dtype: torch.dtype, *operands: Tensor) -> list[Tensor]:
    return [tensor.to(dtype) for tensor in operands]
