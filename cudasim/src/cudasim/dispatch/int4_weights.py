"""Products with weights of four bits, which CUDA alone has in this layout.

Both kernels are in aten/src/ATen/native/cuda/int4mm.cu. A byte holds two weights of a row,
the first in its upper half. The packed weights are stored as the tensor cores take them: a
number of 32 bits holds eight weights of one lane, out of two tiles of 8 rows and 16 columns.
"""

import torch
from torch import Tensor

from cudasim.dispatch.operators import substitute
from cudasim.torch_private import operators as private
from cudasim.words import WORDS

ROWS = 8  # of a tile
COLUMNS = 16
LANES = 32  # of a warp; four of them have the weights of a row
INNER_TILES = (2, 4, 8)  # how many tiles are next to each other
GROUPS = (32, 64, 128, 256)  # how many weights of a row share their scale
ZERO = 8  # the weight of four bits that stands for the zero point
# Where the lower bits of each byte of a lane are put, and where its upper ones.
LOWER_SHIFTS = (16, 20, 24, 28)
UPPER_SHIFTS = (0, 4, 8, 12)


@substitute(private.int4_pack)
def pack(weights: Tensor, inner_tiles: int) -> Tensor:
    """Return the weights in the layout of the product below."""
    _require(weights.dim() == 2, "in.dim() == 2")
    _require(weights.dtype is torch.uint8, "in.dtype() == at::kByte")
    _require(weights.is_contiguous(), "in.is_contiguous()")
    _require(inner_tiles in INNER_TILES, _one_of("innerKTiles", INNER_TILES))
    width = inner_tiles * COLUMNS // 2  # bytes of the tiles that are next to each other
    text = "isEvenDivisor(in.size(1) * 2, innerKTiles * kKTileSize)"
    _require(weights.shape[1] % width == 0, text)

    missing_rows = -weights.shape[0] % ROWS
    rows = torch.nn.functional.pad(weights.long(), (0, 0, 0, missing_rows))
    # rows of tiles, rows, columns of tiles, pairs of tiles, bytes of a lane, lanes of a row
    bytes_of_lanes = rows.view(-1, ROWS, rows.shape[1] // width, inner_tiles // 2, 4, 4)
    lanes = bytes_of_lanes.permute(0, 2, 1, 5, 3, 4).flatten(2, 3)
    upper = (lanes >> 4) << torch.tensor(UPPER_SHIFTS)
    lower = (lanes & 15) << torch.tensor(LOWER_SHIFTS)
    return (upper | lower).sum(-1).to(torch.int32)


def _unpack(packed: Tensor) -> Tensor:
    """Return the weights of four bits, as numbers from 0 to 15."""
    lanes = packed.long()[..., None]
    upper = lanes >> torch.tensor(UPPER_SHIFTS) & 15
    lower = lanes >> torch.tensor(LOWER_SHIFTS) & 15
    weights = torch.stack([upper, lower], dim=-1).unflatten(2, (ROWS, 4))
    in_order = weights.permute(0, 2, 1, 4, 5, 3, 6)
    return in_order.flatten(2).flatten(0, 1)


@substitute(private.int4_mm)
def multiply(
    activations: Tensor, packed: Tensor, group: int, scales_and_zeros: Tensor
) -> Tensor:
    """Multiply a matrix with the transpose of the packed weights."""
    _check_operands(activations, packed, group, scales_and_zeros)
    weights = _unpack(packed).float() - ZERO
    by_row = scales_and_zeros.float().transpose(0, 1)
    scales, zeros = by_row.repeat_interleave(group, dim=1).unbind(-1)
    wide = (weights * scales + zeros).bfloat16().float()
    return (activations.float() @ wide.t()).bfloat16()


def _check_operands(
    activations: Tensor, packed: Tensor, group: int, scales_and_zeros: Tensor
) -> None:
    inner_tiles = packed.shape[-1] * 2
    _require(inner_tiles in INNER_TILES, _one_of("B_innerKTiles", INNER_TILES))
    _require(activations.dtype is torch.bfloat16, "A.dtype() == at::kBFloat16")
    _require(activations.is_contiguous(), "A.is_contiguous()")
    _require(activations.dim() == 2, "A.dim() == 2")
    _require(packed.dtype is torch.int32, "B.dtype() == at::kInt")
    _require(packed.is_contiguous(), "B.is_contiguous()")
    _require(packed.dim() == 4, "B.dim() == 4")

    columns = activations.shape[1]
    has_all_columns = packed.shape[1] == columns // (inner_tiles * COLUMNS)
    _require(has_all_columns, "B.size(1) == k / (B_innerKTiles * kKTileSize)")
    _require(packed.shape[2] == LANES, "B.size(2) == 32")
    _require(group in GROUPS, _one_of("qGroupSize", GROUPS))
    _require(scales_and_zeros.dim() == 3, "qScaleAndZeros.dim() == 3")
    is_divided = columns >= group and columns % group == 0
    _require(is_divided, WORDS["int4"]["groups"])
    has_all_rows = scales_and_zeros.shape[1] == packed.shape[0] * ROWS
    _require(has_all_rows, "qScaleAndZeros.size(1) == n")
    _require(scales_and_zeros.shape[2] == 2, "qScaleAndZeros.size(2) == 2")


def _one_of(name: str, values: tuple[int, ...]) -> str:
    return " || ".join([f"{name} == {value}" for value in values])


def _require(condition: bool, text: str) -> None:
    """Raise the error of a `TORCH_CHECK` without a message."""
    if not condition:
        raise RuntimeError(WORDS["int4"]["check"].format(text))
