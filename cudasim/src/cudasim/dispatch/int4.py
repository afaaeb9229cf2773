"""Products with weights of 4 bits, in the order in which CUDA packs them.

The order, the checks and the arithmetic are those of native/cuda/int4mm.cu. A warp of 32
lanes multiplies tiles of 8 rows and 16 columns; a lane keeps 8 numbers of two tiles in 32
bits. The numbers at even places come from the upper halves of bytes.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.checks import disagreement
from cudasim.dispatch.only_cuda import is_on_cuda
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import general, tag_results
from cudasim.dispatch.tags import gpu_of
from cudasim.torch_private import operators as private
from cudasim.words import WORDS

EXPECTED = WORDS["checks of C++"]["expected"]

TILE_ROWS, TILE_COLUMNS = 8, 16
LANES = 32
INNER_TILES = (2, 4, 8)
GROUP_SIZES = (32, 64, 128, 256)
# Where each of four bytes goes in the 32 bits: its upper half, and its lower one.
PLACES = ((0, 16), (4, 20), (8, 24), (12, 28))
# The number that stands for zero.
ZERO = 8


def expect(condition: bool, expression: str) -> None:
    """Raise the error of a check in C++ that has no words of its own."""
    if not condition:
        raise RuntimeError(EXPECTED.format(expression))


@rule(private.int4_pack)
def pack(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Pack a matrix of bytes with two numbers each."""
    matrix, inner_tiles = args
    if not is_on_cuda(matrix):
        return general(func, args, kwargs)
    expect(matrix.dim() == 2, "in.dim() == 2")
    expect(matrix.dtype is torch.uint8, "in.dtype() == at::kByte")
    expect(matrix.is_contiguous(), "in.is_contiguous()")
    kinds = "innerKTiles == 2 || innerKTiles == 4 || innerKTiles == 8"
    expect(inner_tiles in INNER_TILES, kinds)
    rows, width = matrix.shape
    is_divisible = width * 2 % (inner_tiles * TILE_COLUMNS) == 0
    expect(is_divisible, "isEvenDivisor(in.size(1) * 2, innerKTiles * kKTileSize)")

    missing = -rows % TILE_ROWS
    padded = torch.nn.functional.pad(matrix, (0, 0, 0, missing)).int()
    pairs = inner_tiles // 2
    # tiles of rows, rows, tiles of columns, pairs of these, places in 32 bits, lanes
    parts = padded.view(-1, TILE_ROWS, width // (pairs * 16), pairs, 4, 4)
    packed = torch.zeros_like(parts[..., 0, :])
    for (upper, lower), byte in zip(PLACES, parts.unbind(4), strict=True):
        packed |= (byte >> 4) << upper
        packed |= (byte & 15) << lower
    in_order = packed.permute(0, 2, 1, 4, 3).flatten(2, 3).contiguous()
    return tag_results(in_order, gpu_of(matrix))


@rule(private.int4_mm)
def multiply(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Multiply by packed numbers, each with the scale and the zero of its group."""
    first, packed, group_size, scales_and_zeros = args
    if not is_on_cuda(first):
        return general(func, args, kwargs)
    if len({gpu_of(tensor) for tensor in (first, packed, scales_and_zeros)}) > 1:
        raise disagreement(func, args, kwargs)
    check_product(first, packed, group_size, scales_and_zeros)

    scales, zeros = scales_and_zeros.float().unbind(-1)
    numbers = unpack(packed) - ZERO
    scales = scales.t().repeat_interleave(group_size, 1)
    zeros = zeros.t().repeat_interleave(group_size, 1)
    weights = (numbers * scales + zeros).to(first.dtype)
    product = first.float() @ weights.float().t()
    return tag_results(product.to(first.dtype), gpu_of(first))


def check_product(
    first: Tensor, packed: Tensor, group_size: int, scales_and_zeros: Tensor
) -> None:
    """Check the arguments of a product."""
    expect(first.dtype is torch.bfloat16, "A.dtype() == at::kBFloat16")
    expect(first.is_contiguous(), "A.is_contiguous()")
    expect(first.dim() == 2, "A.dim() == 2")
    expect(packed.dtype is torch.int32, "B.dtype() == at::kInt")
    expect(packed.is_contiguous(), "B.is_contiguous()")
    expect(packed.dim() == 4, "B.dim() == 4")
    depth = packed.shape[1] * packed.shape[3] * 2 * TILE_COLUMNS
    expect(first.shape[1] == depth, "B.size(1) == k / (B_innerKTiles * kKTileSize)")
    expect(packed.shape[2] == LANES, "B.size(2) == 32")
    sizes = " || ".join(f"qGroupSize == {size}" for size in GROUP_SIZES)
    expect(group_size in GROUP_SIZES, sizes)
    expect(scales_and_zeros.dim() == 3, "qScaleAndZeros.dim() == 3")
    is_divided = depth >= group_size and depth % group_size == 0
    size = "kTiles * kKTileSize"
    words = f"{size} >= qGroupSize && isEvenDivisor({size}, qGroupSize)"
    expect(is_divided, words)
    rows = packed.shape[0] * TILE_ROWS
    expect(scales_and_zeros.shape[1] == rows, "qScaleAndZeros.size(1) == n")
    expect(scales_and_zeros.shape[2] == 2, "qScaleAndZeros.size(2) == 2")


def unpack(packed: Tensor) -> Tensor:
    """Return the numbers that were packed, one in a place."""
    row_tiles, column_tiles, _, pairs = packed.shape
    lanes = packed.view(row_tiles, column_tiles, TILE_ROWS, 4, pairs)
    halves = [(lanes >> shift) & 15 for shift in itertools.chain(*PLACES)]
    # The last two dimensions are the places in 32 bits, and the halves of a byte.
    numbers = torch.stack(halves, -1).unflatten(-1, (4, 2))
    numbers = numbers.permute(0, 2, 1, 4, 5, 3, 6)
    return numbers.reshape(row_tiles * TILE_ROWS, -1)
