"""What NCCL, and PyTorch's group for it, refuse on one rank, in their words. The texts are those of
torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (`check_gpu_single_tensor`,
`check_gpu_tensors_same_device`, `getNcclDataType`, `getNcclReduceOp`, `getNCCLComm`) and of
torch/csrc/cuda/nccl.cpp (`to_nccl_data_type`)."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.table import COLLECTIVES, PAIRWISE
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import CPP_NAMES, short_name
from cudasim.dispatch.tags import gpu_of
from cudasim.words import WORDS

FLOAT8 = {
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
}
SCALED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
TYPES = {
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    *SCALED,
    *FLOAT8,
}
CPU = "No backend type associated with device type cpu"
SAID = WORDS["NCCL"]
FLAT = WORDS[
    "flat collectives"
]  # where the parts are of other types than the whole, or sizes
MEMORY_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
dense = torch.ops.aten.is_non_overlapping_and_dense


def refuse_devices(name: str, tensors: list[Tensor], bound: GPU | None) -> None:
    gpus = {gpu_of(tensor) for tensor in tensors}
    if name == "recv_any_source_":
        raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")
    if None in gpus or any(tensor.is_sparse for tensor in tensors):
        raise ValueError("Tensors must be CUDA and dense")
    if len(gpus) > 1:
        raise ValueError("Expected list of tensors on the same device")
    if bound is not None and gpus != {bound}:
        raise dist.DistBackendError(SAID["bound"])


def refuse_layouts(name: str, args: tuple, tensors: list[Tensor], size: int) -> None:
    collective, word = COLLECTIVES[name], COLLECTIVES[name].word
    if "coalesced" in name:
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise TypeError("Tensors must have identical type")
        if not all(map(dense, tensors)):
            raise ValueError("Tensors must be non-overlapping and dense")
    elif word not in ("send", "recv"):  # which PyTorch warns of itself
        # A list for each rank is copied first; all else NCCL takes as it lies in memory.
        copied = None if word == "all_to_all" else collective.parts
        direct = tensors_in(
            value for place, value in enumerate(args) if place != copied
        )
        if not all(map(in_order, direct)):
            raise ValueError("Tensors must be contiguous")
    if collective.parts is not None:
        number = len(tensors_in((args[collective.parts],)))
        if word not in ("gather", "scatter") and number != size:
            raise ValueError(SAID["list"])
        if number not in (0, size):  # the root alone has the list
            which = ("output", "input")[collective.parts]
            raise ValueError(
                SAID[f"{which} list"].format(word=word, number=number, size=size)
            )
    if name in FLAT:
        whole, part = args[collective.moved], args[1 - collective.moved]
        types, sizes = FLAT[name]
        if whole.dtype != part.dtype:
            raise TypeError(types)
        if whole.numel() != part.numel() * size:
            raise ValueError(sizes)


def in_order(tensor: Tensor) -> bool:
    form = MEMORY_FORMATS.get(tensor.dim(), torch.contiguous_format)
    return tensor.is_contiguous() or tensor.is_contiguous(memory_format=form)


def refuse_types(word: str, tensors: list[Tensor]) -> None:
    for dtype in (
        tensor.dtype for tensor in tensors
    ):  # complex ones go as pairs of real ones
        if dtype not in TYPES and word in PAIRWISE:
            raise RuntimeError(f"Unconvertible NCCL type {scalar_type(dtype)}")
        if dtype not in TYPES and not dtype.is_complex:
            raise TypeError(SAID["type"].format(scalar_type(dtype)))
        if "reduce" in word and dtype in FLOAT8:
            raise RuntimeError(
                "Float8 dtypes are not currenlty supported for NCCL reductions"
            )


def refuse_reduction(op: Any, dtype: torch.dtype) -> None:
    """Refuse a reduction, by name or as a ReduceOp, that NCCL does not know for that type."""

    def is_named(name: str) -> bool:
        return op == (
            name.lower() if isinstance(op, str) else getattr(dist.ReduceOp, name)
        )

    for name in ("BAND", "BOR", "BXOR"):
        if is_named(name):
            raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")
    if is_named("AVG") and dtype is torch.bool:
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if is_named("PREMUL_SUM") and dtype not in SCALED:
        raise TypeError("PreMulSum Data type must be half, float, bfloat16 or double")


def scalar_type(dtype: torch.dtype) -> str:
    """C++'s name of a type: `Float`, `UInt16`, `Float8_e5m2`."""
    name = short_name(dtype).replace("uint", "uInt")
    return CPP_NAMES.get(dtype) or name[0].upper() + name[1:]
