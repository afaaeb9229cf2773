"""Semi-structured sparsity: matrices of which two in four numbers are kept.

PyTorch has its kernels for CUDA alone: those of cuSPARSELt, which hold the numbers and
their positions in one tensor, and those of CUTLASS, which hold them in two. Here the
products are those of the dense matrix.

Both describe four numbers by four bits: the position of the first that is kept, and above
it that of the second (torch/sparse/_semi_structured_conversions.py). Four numbers of 16
bits stand for two of `float32`, of which one is kept. In which order cuSPARSELt stores the
positions is not published; here it is that of the rows.
"""

import torch
from torch import Tensor

from cudasim.dispatch.dtypes import CPP_NAMES
from cudasim.dispatch.operators import substitute
from cudasim.dispatch.tags import gpu_of
from cudasim.torch_private import operators as private
from cudasim.torch_private.tensors import compress_for_cutlass, expand_from_cutlass
from cudasim.words import WORDS

MESSAGES = WORDS["semi-structured"]
LEAST_CAPABILITY = (8, 0)  # of cuSPARSELt
CUTLASS_MAJOR = 8  # its kernels run on cards of 8.0 to 8.9 alone

# The dtypes of compressed matrices, and as what their numbers are moved: for each number
# of `float32` as two.
PIECES = {
    torch.int8: torch.int8,
    torch.float8_e4m3fn: torch.int8,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int16,
}
# What messages of C++ call the dtype of a tensor, by the name of its type.
TYPES = {
    torch.int8: "signed char",
    torch.int32: "int",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.float32: "float",
    torch.float64: "double",
}
# The dtypes of results that 8-bit operands may have.
RESULTS = {
    torch.int8: (torch.float16, torch.bfloat16, torch.int32),
    torch.float8_e4m3fn: (
        torch.float8_e4m3fn,
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ),
}


# cuSPARSELt: aten/src/ATen/native/sparse/cuda/cuSPARSELtOps.cpp


@substitute(private.cslt_compress)
def compress(dense: Tensor) -> Tensor:
    """Return the numbers that are kept, and after those of all rows their positions.

    As many columns hold them as the bytes fill.
    """
    _check_library(dense)
    if dense.dtype not in PIECES:
        raise RuntimeError(MESSAGES["dtype"])
    rows = dense.shape[0]
    pieces, is_kept = _in_pieces(dense)
    positions = _choose_two(is_kept.view(rows, -1, 4))
    kept = pieces.view(rows, -1, 4).gather(-1, positions)

    first, second = positions.unbind(-1)
    codes = (first | second << 2).view(rows, -1, 2)
    pairs = codes[..., 0] | codes[..., 1] << 4  # eight bits for two groups
    parts = [kept.view(-1).view(torch.uint8), pairs.view(-1).to(torch.uint8)]
    return torch.cat(parts).view(dense.dtype).view(rows, -1)


def _in_pieces(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of a matrix as they are moved, and which of them are not zero."""
    is_kept = dense.float() != 0
    if dense.dtype is torch.float32:
        is_kept = is_kept.repeat_interleave(2, dim=-1)
    return dense.view(PIECES[dense.dtype]), is_kept


def _choose_two(is_kept: Tensor) -> Tensor:
    """Return the positions of two in each group of four.

    If fewer differ from zero others are chosen too, and of more the last are left out, as
    `sparse_semi_structured_from_dense_cutlass` does.
    """
    zeroth, first, _, third = is_kept.unbind(-1)
    lower = torch.where(zeroth, 0, torch.where(first, 1, 2))
    upper = torch.where(third | ~(zeroth | first), 3, 2)
    upper = torch.where(zeroth & first, 1, upper)
    return torch.stack([lower, upper], dim=-1)


def _expand(compressed: Tensor, columns: int) -> Tensor:
    """Return the dense matrix that was compressed."""
    rows = compressed.shape[0]
    stored = compressed.reshape(-1).view(torch.uint8)
    kept_size = rows * columns // 2 * compressed.itemsize
    piece = PIECES[compressed.dtype]
    kept = stored[:kept_size].view(piece).view(rows, -1, 2)

    pairs = stored[kept_size:].long()
    codes = torch.stack([pairs & 15, pairs >> 4], dim=-1).view(rows, -1)
    positions = torch.stack([codes & 3, codes >> 2], dim=-1)
    dense = torch.zeros(rows, kept.shape[1], 4, dtype=piece)
    dense.scatter_(-1, positions, kept)
    return dense.view(rows, -1).view(compressed.dtype)


@substitute(private.cslt_mm)
def multiply(
    compressed: Tensor,
    dense: Tensor,
    bias: Tensor | None = None,
    alpha: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    transpose_result: bool = False,
    *choice: int,  # of an algorithm, which changes the speed only
) -> Tensor:
    """Multiply a compressed matrix with a dense one, scale each row and add a bias to it."""
    _check_library(compressed)
    if compressed.dtype not in PIECES:
        raise RuntimeError(MESSAGES["product dtype"])
    _check_result(compressed.dtype, out_dtype)
    product = _wide_product(_expand(compressed, dense.shape[0]), dense)
    if alpha is not None:
        product = product * alpha.view(-1, 1)
    if bias is not None:
        product = product + bias.view(-1, 1)
    if transpose_result:
        product = product.t().contiguous()
    return _round(product, out_dtype or dense.dtype)


@substitute(private.cslt_mm_search)
def search(*operands: Tensor | None, **options: object) -> int:
    """Return the number of the fastest algorithm: here there is one."""
    _check_library(operands[0])
    return 0


def _check_result(dtype: torch.dtype, out_dtype: torch.dtype | None) -> None:
    if out_dtype is None:
        return
    if dtype not in RESULTS:
        raise RuntimeError(MESSAGES["result"])
    if out_dtype not in RESULTS[dtype]:
        raise RuntimeError(MESSAGES[f"result of {dtype}"])


def _check_library(operand: Tensor) -> None:
    """Refuse cards that cuSPARSELt does not know."""
    if gpu_of(operand).card.capability < LEAST_CAPABILITY:
        raise RuntimeError(MESSAGES["architecture"])


# CUTLASS: aten/src/ATen/native/sparse/cuda/SparseSemiStructuredOps.cu and
# SparseSemiStructuredLinear.cu


@substitute(private.to_semi_structured)
def compress_apart(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers that are kept, and their positions."""
    return compress_for_cutlass(dense.clone())


@substitute(private.semi_structured_mm)
def multiply_apart(
    kept: Tensor,
    positions: Tensor,
    dense: Tensor,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply a compressed matrix with a dense one."""
    _check_operands(kept, dense)
    product = _wide_product(_expand_apart(kept, positions), dense)
    return _round(product, out_dtype or dense.dtype)


@substitute(private.semi_structured_addmm)
def add_and_multiply_apart(
    bias: Tensor,
    kept: Tensor,
    positions: Tensor,
    dense: Tensor,
    *,
    alpha: float = 1,
    beta: float = 1,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply a compressed matrix with a dense one, and add a bias to each row."""
    _check_operands(kept, dense)
    _check_bias(bias, kept, out_dtype or dense.dtype)
    product = _wide_product(_expand_apart(kept, positions), dense)
    product = alpha * product + beta * bias.view(-1, 1)
    return _round(product, out_dtype or dense.dtype)


def _expand_apart(kept: Tensor, positions: Tensor) -> Tensor:
    # PyTorch's function takes ones rather than the numbers, as it moves those of `float32`
    # as if they were of 16 bits, which does not leave all of them as they are.
    ones = torch.ones(kept.shape, dtype=kept.dtype)
    is_kept = expand_from_cutlass(ones, positions.clone()) != 0
    dense = torch.zeros(is_kept.shape, dtype=kept.dtype)
    return dense.masked_scatter_(is_kept, kept)


def _check_operands(kept: Tensor, dense: Tensor) -> None:
    if gpu_of(kept).card.capability[0] != CUTLASS_MAJOR:
        raise RuntimeError(MESSAGES["capability"])
    if kept.dtype is not dense.dtype:
        types = (TYPES.get(dense.dtype), TYPES.get(kept.dtype))
        raise RuntimeError(MESSAGES["operands"].format(*types))
    if kept.shape[1] != dense.shape[0] // 2:
        columns = (dense.shape[0] // 2, kept.shape[1])
        raise RuntimeError(MESSAGES["columns"].format(*columns))
    is_row_major = dense.stride(1) == 1
    if dense.dtype is torch.int8 and is_row_major:
        raise RuntimeError(MESSAGES["layouts"])


def _check_bias(bias: Tensor, kept: Tensor, dtype: torch.dtype) -> None:
    if bias.dim() != 1:
        raise RuntimeError(MESSAGES["bias dimensions"].format(bias.dim()))
    if len(bias) != len(kept):
        raise RuntimeError(MESSAGES["bias size"].format(len(kept), len(bias)))
    if bias.dtype is not dtype:
        raise RuntimeError(
            MESSAGES["bias dtype"].format(CPP_NAMES[dtype], TYPES.get(bias.dtype))
        )


# Both


def _wide_product(sparse: Tensor, dense: Tensor) -> Tensor:
    """Multiply in the dtype in which the kernels add up."""
    wide = torch.int32 if dense.dtype is torch.int8 else torch.float32
    return torch.mm(sparse.to(wide), dense.to(wide))


def _round(product: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype is torch.int8:
        product = product.clamp(-128, 127)
    return product.to(dtype)
