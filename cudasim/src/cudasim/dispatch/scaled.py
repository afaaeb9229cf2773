"""Products of matrices of 8-bit floats with scales, as cuBLAS computes them.

The checks, their order and their words are those of native/cuda/ScaledBlas.cpp and
native/cuda/GroupedBlas.cpp. The numbers are multiplied by their scales and summed in
float32, and the sum is rounded once. Products of 4-bit floats, and those with scales for 16
or 32 numbers, need a Blackwell card and are not computed.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cudasim.dispatch.kernel_names import CPP_NAMES
from cudasim.dispatch.operators import substitute
from cudasim.dispatch.tags import foretell, gpu_of, storage_of
from cudasim.torch_private import operators as private
from cudasim.words import WORDS

MESSAGES = WORDS["scaled products"]

FLOAT8 = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
)
# Those of AMD, which cuBLAS does not know.
UNKNOWN_TO_CUBLAS = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
FLOAT4 = torch.float4_e2m1fn_x2

ADA = (8, 9)  # the least capability with products of 8-bit floats
HOPPER = 9

# ScalingType of ATen/BlasBackend.h -> how many (rows, columns) share a scale; 0 is all.
TENSOR_WISE, ROW_WISE, BLOCK_1X16, BLOCK_1X32, BLOCK_1X128, BLOCK_128X128 = range(6)
BLOCKS = {
    TENSOR_WISE: (0, 0),
    ROW_WISE: (1, 0),
    BLOCK_1X16: (1, 16),
    BLOCK_1X32: (1, 32),
    BLOCK_1X128: (1, 128),
    BLOCK_128X128: (128, 128),
}
# What `_scaled_mm` finds out from the shapes, in its order.
JOINT_SCALINGS = (
    (TENSOR_WISE, TENSOR_WISE),
    (ROW_WISE, ROW_WISE),
    (BLOCK_128X128, BLOCK_1X128),
    (BLOCK_1X128, BLOCK_128X128),
    (BLOCK_1X128, BLOCK_1X128),
    (BLOCK_1X32, BLOCK_1X32),
    (BLOCK_1X16, BLOCK_1X16),
)


class Factor(NamedTuple):
    """A matrix whose rows are multiplied, its scales, and how they are shared.

    The second matrix of a product is one of these if it is transposed.
    """

    matrix: Tensor
    scale: Tensor
    scaling: int

    @property
    def columns(self) -> int:
        """The number of columns; two 4-bit floats share a byte."""
        return self.matrix.shape[1] * (2 if self.matrix.dtype is FLOAT4 else 1)

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of blocks in a column and in a row."""
        height, width = BLOCKS[self.scaling]
        rows = math.ceil(self.matrix.shape[0] / height) if height else 1
        return rows, math.ceil(self.columns / width) if width else 1

    def is_valid(self) -> bool:
        """Return whether the scales have the dtype, the shape and the order they need."""
        kind = self.scale.dtype
        if self.scaling == BLOCK_1X16:
            fits = self.matrix.dtype is FLOAT4 and kind is torch.float8_e4m3fn
            return fits and self._is_swizzled()
        if self.scaling == BLOCK_1X32:
            fits = kind is torch.float8_e8m0fnu
            return fits and self._is_swizzled()
        if self.matrix.dtype not in FLOAT8 or kind is not torch.float32:
            return False
        if self.scaling == TENSOR_WISE:
            return self.scale.numel() == 1
        if tuple(self.scale.shape) != self.blocks:
            return False
        strides = self.scale.stride()
        if self.scaling == ROW_WISE:
            return self.scale.is_contiguous()
        rows, columns = self.blocks
        expected = (1, rows) if self.scaling == BLOCK_1X128 else (columns, 1)
        pairs = zip(self.blocks, strides, expected, strict=True)
        return all(size <= 1 or stride == wanted for size, stride, wanted in pairs)

    def _is_swizzled(self) -> bool:
        rows, columns = self.blocks
        padded = round_up(rows, 128) * round_up(columns, 4)
        return self.scale.numel() == padded and self.scale.is_contiguous()

    def scaled(self) -> Tensor:
        """Return the numbers of the matrix times their scales, in float32."""
        scale = self.scale
        for dim, size in enumerate(BLOCKS[self.scaling]):
            if size > 1:
                scale = scale.repeat_interleave(size, dim)
        if self.scaling != TENSOR_WISE:
            rows, columns = self.matrix.shape
            scale = scale[:rows, :columns]
        return self.matrix.float() * scale


def round_up(number: int, multiple: int) -> int:
    """Return the least multiple that is not below `number`."""
    return math.ceil(number / multiple) * multiple


def check_card(first: Tensor, words: str, refusal: type[Exception]) -> None:
    """Raise the error of a card without such products."""
    if gpu_of(first).card.capability < ADA:
        raise refusal(words)


def check_sizes(first: Tensor, second: Tensor, refusal: type[Exception]) -> None:
    """Check that the sizes are multiples of 16."""
    rows, depth = first.shape
    if depth % 16:
        raise refusal(MESSAGES["first size"].format(rows, depth))
    if second.shape[0] % 16 or second.shape[1] % 16:
        raise refusal(MESSAGES["second size"].format(*second.shape))


def check_dtypes(first: Tensor, second: Tensor) -> None:
    """Check the dtypes of the factors."""
    if first.dtype is second.dtype is torch.float8_e5m2:
        raise RuntimeError(MESSAGES["two e5m2"])
    for matrix in (first, second):
        if matrix.dtype in UNKNOWN_TO_CUBLAS:
            name = CPP_NAMES[matrix.dtype]
            raise RuntimeError(MESSAGES["unknown"].format(name))


def check_bias(bias: Tensor | None, result: torch.dtype) -> None:
    """Check that the dtype of the bias goes with that of the result."""
    if bias is None:
        return
    if result is torch.float32:
        raise RuntimeError(MESSAGES["float bias"])
    actual = CPP_NAMES[bias.dtype]
    if bias.dtype not in (torch.bfloat16, torch.float16):
        raise RuntimeError(MESSAGES["bias dtype"].format(actual))
    name = CPP_NAMES[result]
    if result is torch.bfloat16 and bias.dtype is not torch.bfloat16:
        raise RuntimeError(MESSAGES["bias"].format("BFloat16", name, actual))
    if result is torch.float16 and bias.dtype is not torch.float16:
        raise RuntimeError(MESSAGES["bias"].format("Float16", name, actual))


def check_layout(first: Tensor, second: Tensor) -> None:
    """Check that rows are multiplied by columns, as all cards before Blackwell demand."""
    major, _ = gpu_of(first).card.capability
    if major > HOPPER:
        return
    for matrix in (first.t(), second):
        if matrix.stride(0) != 1 and matrix.shape[0] > 1:
            words = "layout" if major == HOPPER else "heuristic"
            raise RuntimeError(MESSAGES[words])


def check_blocks(first: Factor, second: Factor) -> None:
    """Check that the card has products with scales for blocks of this kind."""
    major, _ = gpu_of(first.matrix).card.capability
    kinds = {first.scaling, second.scaling}
    needs_blackwell = kinds & {BLOCK_1X16, BLOCK_1X32}
    needs_hopper = kinds & {BLOCK_1X128, BLOCK_128X128}
    if needs_blackwell and major > HOPPER:
        raise NotImplementedError(MESSAGES["small blocks"])
    if needs_blackwell or (needs_hopper and major != HOPPER):
        raise RuntimeError(MESSAGES["heuristic"])


def joint_scaling(
    first: Tensor, second: Tensor, scale_a: Tensor, scale_b: Tensor
) -> tuple[Factor, Factor]:
    """Return both factors of a product with the scalings that their shapes tell."""
    for left, right in JOINT_SCALINGS:
        is_swizzled = right in (BLOCK_1X16, BLOCK_1X32)
        columns = scale_b if is_swizzled or scale_b.dim() < 2 else scale_b.t()
        factors = Factor(first, scale_a, left), Factor(second.t(), columns, right)
        if all(factor.is_valid() for factor in factors):
            return factors
    raise ValueError(invalid_scaling(first, second, scale_a, scale_b))


def invalid_scaling(
    first: Tensor, second: Tensor, scale_a: Tensor, scale_b: Tensor
) -> str:
    """Return CUDA's words for scales that go with no kind of scaling."""
    rows, depth = first.shape
    columns = second.shape[1]

    def blocks(size: int, width: int) -> int:
        return round_up(size, 128) * round_up(math.ceil(width), 4)

    return MESSAGES["invalid"].format(
        M=rows,
        N=columns,
        K128=math.ceil(depth / 128),
        M128=math.ceil(rows / 128),
        N128=math.ceil(columns / 128),
        A32=blocks(rows, depth / 32),
        B32=blocks(columns, depth / 32),
        A16=blocks(rows, depth / 8),
        B16=blocks(columns, depth / 8),
        a=CPP_NAMES.get(first.dtype, first.dtype),
        b=CPP_NAMES.get(second.dtype, second.dtype),
        scale_a=described(scale_a),
        scale_b=described(scale_b),
    )


def described(scale: Tensor) -> tuple[str, list[int], list[int]]:
    """Return the dtype, the sizes and the strides of scales, as C++ prints them."""
    return CPP_NAMES[scale.dtype], list(scale.shape), list(scale.stride())


class Result(NamedTuple):
    """What a product becomes."""

    dtype: torch.dtype
    bias: Tensor | None = None
    scale: Tensor | None = None
    out: Tensor | None = None


def multiply(first: Factor, second: Factor, result: Result) -> Tensor:
    """Return the product, rounded once to the dtype that was asked for."""
    product = first.scaled() @ second.scaled().t()
    if result.bias is not None:
        product += result.bias.float()
    if result.scale is not None and result.dtype in FLOAT8:
        product *= result.scale
    return to_dtype(product, result.dtype)


def to_dtype(product: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a product; what an 8-bit float cannot hold becomes its greatest number."""
    if dtype in FLOAT8:
        limit = torch.finfo(dtype).max
        product = product.clamp(-limit, limit)
    return product.to(dtype)


@substitute(private.scaled_mm, private.scaled_mm_out)
def scaled_mm(
    first: Tensor,
    second: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply two matrices whose scales tell by their shapes how they are shared."""
    check_card(first, MESSAGES["card"], RuntimeError)
    for name, matrix in (("mat1", first), ("mat2", second)):
        if matrix.dim() != 2:
            raise RuntimeError(MESSAGES["matrix"].format(name))
    if first.shape[1] != second.shape[0]:
        shapes = (*first.shape, *second.shape)
        raise RuntimeError(MESSAGES["shapes"].format(*shapes))

    factors = joint_scaling(first, second, scale_a, scale_b)
    if bias is not None and bias.numel() != second.shape[1]:
        sizes = (second.shape[1], bias.numel())
        raise RuntimeError(MESSAGES["bias size"].format(*sizes))
    check_sizes(first, second, RuntimeError)
    dtype = result_dtype(first, out_dtype, out)
    result = Result(dtype, bias, scale_result, out)
    return computed(first, second, factors, result)


@substitute(*private.scaled_mm_v2)
def scaled_mm_v2(
    first: Tensor,
    second: Tensor,
    scale_a: list[Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply two matrices whose scales are described by recipes."""
    check_card(first, MESSAGES["card"], NotImplementedError)
    check_sizes(first, second, ValueError)
    factors = (
        described_factor(first, scale_a, recipe_a[0]),
        described_factor(second.t(), scale_b, recipe_b[0]),
    )
    kinds = {factor.scaling for factor in factors}
    if not all(factor.is_valid() for factor in factors):
        raise ValueError(invalid_scaling(first, second, scale_a[0], scale_b[0]))
    major, _ = gpu_of(first).card.capability
    if kinds & {BLOCK_1X128, BLOCK_128X128} and major != HOPPER:
        raise NotImplementedError(MESSAGES["only Hopper"])
    dtype = result_dtype(first, out_dtype, out)
    result = Result(dtype, bias, out=out)
    return computed(first, second, factors, result)


def described_factor(matrix: Tensor, scales: Sequence[Tensor], recipe: int) -> Factor:
    """Return a matrix with scales of the kind that a recipe says."""
    scale = scales[0]
    rows, _ = Factor(matrix, scale, recipe).blocks
    if recipe == ROW_WISE:
        scale = scale.reshape(rows, 1)
    elif recipe == BLOCK_128X128:
        # The blocks of a row are in a column, of whose padding nothing is read.
        _, columns = Factor(matrix, scale, recipe).blocks
        scale = scale.t()[:, :columns].contiguous()
    return Factor(matrix, scale, recipe)


def result_dtype(
    first: Tensor, out_dtype: torch.dtype | None, out: Tensor | None
) -> torch.dtype:
    """Return the dtype of a product, which has to be that of `out` if both are given."""
    if out is None:
        return out_dtype or first.dtype
    if out_dtype not in (None, out.dtype):
        raise RuntimeError(MESSAGES["out"])
    return out.dtype


def computed(
    first: Tensor, second: Tensor, factors: tuple[Factor, Factor], result: Result
) -> Tensor:
    """Check what all such products have in common, and compute one."""
    check_dtypes(first, second)
    check_bias(result.bias, result.dtype)
    if first.numel() and second.numel():
        check_layout(first, second)
        check_blocks(*factors)
    if result.out is not None:  # the kernel of the meta device cannot tell its size
        size = first.shape[0] * second.shape[1] * result.dtype.itemsize
        foretell(storage_of(result.out), size)

    product = multiply(*factors, result)
    if result.out is not None:
        return result.out.resize_(product.shape).copy_(product)
    return product


@substitute(private.scaled_grouped_mm)
def scaled_grouped_mm(
    first: Tensor,
    second: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    offsets: Tensor | None = None,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Multiply groups of rows, of columns or of both, each row and column with a scale."""
    check_groups(first, second, offsets, bias, out_dtype)
    if scale_a.dtype is not torch.float32 or scale_b.dtype is not torch.float32:
        raise NotImplementedError(MESSAGES["grouped blocks"])
    product = multiply_groups(first, second, scale_a, scale_b, offsets)
    return product.to(torch.bfloat16)


@substitute(*private.scaled_grouped_mm_v2)
def scaled_grouped_mm_v2(
    first: Tensor,
    second: Tensor,
    scale_a: list[Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    offsets: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Multiply groups as `scaled_grouped_mm` does."""
    scales = scale_a[0], scale_b[0]
    return scaled_grouped_mm(
        first, second, *scales, offsets=offsets, bias=bias, out_dtype=out_dtype
    )


def check_groups(
    first: Tensor,
    second: Tensor,
    offsets: Tensor | None,
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
) -> None:
    """Check the arguments of a product of groups (native/cuda/GroupedBlas.cpp)."""
    major, _ = gpu_of(first).card.capability
    if major not in (HOPPER, 10):
        raise ValueError(MESSAGES["grouped card"])
    if first.stride(-1) != 1:
        raise ValueError("Expected mat1 to not be transposed")
    if second.stride(-2) != 1:
        raise ValueError("Expected mat2 to be transposed")
    is_ragged = first.dim() == 2 or second.dim() == 2
    if not first.dim() == second.dim() == 2 and first.shape[-1] != second.shape[-2]:
        raise ValueError("contraction dimension of mat_a and mat_b must match")
    if first.shape[-1] % 16:
        raise ValueError(MESSAGES["first group"].format(list(first.shape)))
    if second.shape[-2] % 16 or second.shape[-1] % 16:
        raise ValueError(MESSAGES["second group"].format(list(second.shape)))
    if bias is not None:
        raise ValueError("Bias not supported yet")
    if (offsets is not None) is not is_ragged:
        raise ValueError("Have to provide offsets if there is a 2d matrix")
    if offsets is not None and offsets.dtype is not torch.int32:
        raise ValueError("Offsets have to be int32")
    if out_dtype not in (None, torch.bfloat16):
        raise ValueError(MESSAGES["grouped result"])


def multiply_groups(
    first: Tensor,
    second: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    offsets: Tensor | None,
) -> Tensor:
    """Return the products of the groups in float32; the offsets are where groups end."""
    rows = first.float() * (
        1 if first.dim() == second.dim() == 2 else scale_a[..., None]
    )
    columns = second.float()
    if not first.dim() == second.dim() == 2:
        columns = columns * scale_b[..., None, :]
    if offsets is None:
        return rows @ columns

    products = []
    start = 0
    for number, end in enumerate(offsets.tolist()):
        group = slice(start, end)
        if first.dim() == second.dim() == 2:
            product = rows[:, group] @ columns[group]
            product = product * scale_a.view(-1, len(first))[number][:, None]
            product = product * scale_b.view(-1, second.shape[1])[number]
        elif first.dim() == 2:
            product = rows[group] @ columns[number]
        else:
            product = rows[number] @ columns[:, group]
        products.append(product)
        start = end
    if first.dim() == second.dim() == 2:
        return torch.stack(products)
    return torch.cat(products, 0 if first.dim() == 2 else 1)
