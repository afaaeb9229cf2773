"""What NCCL, and PyTorch's group for it, refuse on one rank, in their words.

The texts are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
(`check_gpu_single_tensor`, `check_gpu_tensors_same_device`, `getNcclDataType`,
`getNcclReduceOp`, `getNCCLComm`) and of torch/csrc/cuda/nccl.cpp (`to_nccl_data_type`).
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.table import COLLECTIVES, PAIRWISE, Collective
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
INTEGERS = {torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64}
TYPES = INTEGERS | SCALED | FLOAT8
CPU = "No backend type associated with device type cpu"
MESSAGES = WORDS["NCCL"]
# By operator, what is said where the parts are of other types than the whole, or sizes.
FLAT = WORDS["flat collectives"]
MEMORY_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
is_dense = torch.ops.aten.is_non_overlapping_and_dense


def refuse_devices(name: str, tensors: list[Tensor], bound_gpu: GPU | None) -> None:
    gpus = {gpu_of(tensor) for tensor in tensors}
    if name == "recv_any_source_":
        raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")
    if None in gpus or any(tensor.is_sparse for tensor in tensors):
        raise ValueError("Tensors must be CUDA and dense")
    if len(gpus) > 1:
        raise ValueError("Expected list of tensors on the same device")
    if bound_gpu is not None and gpus != {bound_gpu}:
        raise dist.DistBackendError(MESSAGES["bound"])


def refuse_layouts(name: str, args: tuple, tensors: list[Tensor], size: int) -> None:
    """Refuse the arguments of an operator in a group of so many ranks."""
    collective = COLLECTIVES[name]
    if "coalesced" in name:
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise TypeError("Tensors must have identical type")
        if not all(map(is_dense, tensors)):
            raise ValueError("Tensors must be non-overlapping and dense")
    elif collective.word not in ("send", "recv"):  # PyTorch itself warns of those
        _refuse_strides(collective, args)
    if collective.parts is not None:
        _refuse_number(collective, args, size)
    if name in FLAT:
        _refuse_flat(name, args, size)


def _refuse_strides(collective: Collective, args: tuple) -> None:
    # A list with a tensor for each rank is copied first, but not for `all_to_all`. All
    # else NCCL takes as it lies in memory.
    copied = None if collective.word == "all_to_all" else collective.parts
    direct = [value for position, value in enumerate(args) if position != copied]
    if not all(map(is_in_order, tensors_in(direct))):
        raise ValueError("Tensors must be contiguous")


def is_in_order(tensor: Tensor) -> bool:
    """Tell whether the elements of a tensor lie one after the other."""
    if tensor.is_contiguous():
        return True
    form = MEMORY_FORMATS.get(tensor.dim(), torch.contiguous_format)
    return tensor.is_contiguous(memory_format=form)


def _refuse_number(collective: Collective, args: tuple, size: int) -> None:
    """Refuse a list that has not a tensor for each rank."""
    word = collective.word
    number = len(tensors_in((args[collective.parts],)))
    if word not in ("gather", "scatter") and number != size:
        raise ValueError(MESSAGES["list"])
    if number not in (0, size):  # the root alone has the list
        side = "output" if collective.parts == 0 else "input"
        message = MESSAGES[f"{side} list"]
        raise ValueError(message.format(word=word, number=number, size=size))


def _refuse_flat(name: str, args: tuple, size: int) -> None:
    """Refuse a whole, in one tensor, that does not consist of `size` parts."""
    collective = COLLECTIVES[name]
    whole = args[collective.moved]
    part = args[1 - collective.moved]
    of_types, of_sizes = FLAT[name]
    if whole.dtype != part.dtype:
        raise TypeError(of_types)
    if whole.numel() != part.numel() * size:
        raise ValueError(of_sizes)


def refuse_types(word: str, tensors: list[Tensor]) -> None:
    for tensor in tensors:
        dtype = tensor.dtype
        if dtype not in TYPES:
            if word in PAIRWISE:
                raise RuntimeError(f"Unconvertible NCCL type {scalar_type(dtype)}")
            if not dtype.is_complex:  # those go as pairs of real numbers
                raise TypeError(MESSAGES["type"].format(scalar_type(dtype)))
        if dtype in FLOAT8 and "reduce" in word:
            raise RuntimeError(
                "Float8 dtypes are not currenlty supported for NCCL reductions"
            )


def refuse_reduction(op: Any, dtype: torch.dtype) -> None:
    """Refuse a reduction, by name or as a ReduceOp, that NCCL does not know for that type."""
    for name in ("BAND", "BOR", "BXOR"):
        if _is_reduction(op, name):
            raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")
    if _is_reduction(op, "AVG") and dtype is torch.bool:
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if _is_reduction(op, "PREMUL_SUM") and dtype not in SCALED:
        raise TypeError("PreMulSum Data type must be half, float, bfloat16 or double")


def _is_reduction(op: Any, name: str) -> bool:
    if isinstance(op, str):
        return op == name.lower()
    return op == getattr(dist.ReduceOp, name)


def scalar_type(dtype: torch.dtype) -> str:
    """Return C++'s name of a type: `Float`, `UInt16`, `Float8_e5m2`."""
    if dtype in CPP_NAMES:
        return CPP_NAMES[dtype]
    name = short_name(dtype).replace("uint", "uInt")
    return name[0].upper() + name[1:]
