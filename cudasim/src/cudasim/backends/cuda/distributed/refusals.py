"""What NCCL, and PyTorch's group for it, refuse on one rank, in their words.

The texts are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (`check_gpu_single_tensor`,
`check_gpu_tensors_same_device`, `getNcclDataType`, `getNcclReduceOp`, `getNCCLComm`) and of
torch/csrc/cuda/nccl.cpp (`to_nccl_data_type`).
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.fingerprints import scalar_type
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import gpu_of

FLOAT8 = {
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
}
TYPES = {
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    *FLOAT8,
}
# Operators that PyTorch makes of NCCL's sends and receives, with checks of their own.
PAIRWISE = {"send", "recv_", "alltoall_", "alltoall_base_", "gather_", "scatter_"}
REDUCING = {
    "allreduce_",
    "allreduce_coalesced_",
    "reduce_",
    "reduce_scatter_",
    "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_",
}
BITWISE = ("BAND", "BOR", "BXOR")
# Arguments that are a list with a tensor for each rank of the group.
LISTS = {"allgather_": 0, "reduce_scatter_": 1, "alltoall_": 1}
ROOTED = {"gather_": (0, "output", "gather"), "scatter_": (1, "input", "scatter")}
# Arguments whose tensors the operator hands to NCCL as they lie in memory.
DIRECT = {"allgather_": [1], "reduce_scatter_": [0], "gather_": [1], "scatter_": [0]}


def refuse(func: Callable, args: tuple, size: int, bound: GPU | None) -> None:
    """Raise the error with which a group of so many ranks refuses the tensors of `func`.

    `bound` is the GPU that `init_process_group(device_id=)` named. A collective of which no
    tensor is on a GPU is left to the group's other backend.
    """
    name = func._schema.name.removeprefix("c10d::")
    tensors = tensors_in(args)
    gpus = {gpu_of(tensor) for tensor in tensors}
    if name == "barrier" or gpus == {None}:
        return
    if name == "recv_any_source_":
        raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")
    refuse_devices(tensors, bound)
    refuse_layout(name, args)
    refuse_lists(name, args, size)
    refuse_types(name, tensors)


def refuse_devices(tensors: list[Tensor], bound: GPU | None) -> None:
    """Refuse tensors that are not on one GPU, that of the group if it is bound to one."""
    gpus = {gpu_of(tensor) for tensor in tensors}
    if None in gpus or any(tensor.is_sparse for tensor in tensors):
        raise ValueError("Tensors must be CUDA and dense")
    if len(gpus) > 1:
        raise ValueError("Expected list of tensors on the same device")
    if bound is not None and gpus != {bound}:
        raise dist.DistBackendError(
            "Attempt to perform collective on tensor not on device passed to init_process_group"
        )


def refuse_layout(name: str, args: tuple) -> None:
    """Refuse tensors that are not in one piece of memory, in the order of their elements."""
    if name in ("send", "recv_"):
        return  # PyTorch warns, and leaves it to both ranks to agree
    if "coalesced" in name:
        tensors = tensors_in(args)
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise TypeError("Tensors must have identical type")
        if not all(map(torch.ops.aten.is_non_overlapping_and_dense, tensors)):
            raise ValueError("Tensors must be non-overlapping and dense")
        return
    where = DIRECT.get(name, range(len(args)))
    if not all(map(in_order, tensors_in([args[place] for place in where]))):
        raise ValueError("Tensors must be contiguous")


def in_order(tensor: Tensor) -> bool:
    """True for a contiguous tensor, and one that is in the order of the channels last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.is_contiguous() or (
        tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])
    )


def refuse_lists(name: str, args: tuple, size: int) -> None:
    """Refuse lists without a tensor for each rank, and results that do not fit their inputs."""
    if name in LISTS:
        refuse_list(tensors_in((args[LISTS[name]],)), size)
    if name in ROOTED:
        place, word, function = ROOTED[name]
        if args[place] and len(args[place][0]) != size:  # only the root has a list
            raise ValueError(
                f"ProcessGroupNCCL::{function}: Incorrect {word} list size {len(args[place][0])}. "
                f"{word.capitalize()} list size should be {size}, same as size of the process "
                "group."
            )
    if name == "_allgather_base_":
        output, given = args[:2]
        if given.dtype != output.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if given.numel() * size != output.numel():
            raise ValueError(
                "output tensor size must be equal to world_size times input tensor size"
            )
    if name == "_reduce_scatter_base_":
        output, given = args[:2]
        if given.dtype != output.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if given.numel() != output.numel() * size:
            raise ValueError("input tensor must be the same size as output size times world size")


def refuse_list(tensors: list[Tensor], size: int) -> None:
    """Refuse a list that has not a tensor for each rank of a group of that `size`."""
    if len(tensors) != size:
        raise ValueError(
            "Tensor list input to scatter/gather must match number of collective participants"
        )


def refuse_types(name: str, tensors: list[Tensor]) -> None:
    """Refuse what NCCL cannot send, and what it cannot add."""
    for tensor in tensors:
        dtype = tensor.dtype
        if dtype.is_complex and name not in PAIRWISE:
            continue  # it goes as pairs of real numbers
        if dtype not in TYPES and name in PAIRWISE:
            raise RuntimeError(f"Unconvertible NCCL type {scalar_type(dtype)}")
        if dtype not in TYPES:
            raise TypeError(
                "Input tensor data type is not supported for NCCL process group: "
                f"{scalar_type(dtype)}"
            )
        if name in REDUCING and dtype in FLOAT8:
            raise RuntimeError("Float8 dtypes are not currenlty supported for NCCL reductions")


def refuse_reduction(op: Any, tensor: Tensor) -> None:
    """Refuse a reduction that NCCL does not know, or not for numbers of that type."""
    for name in (*BITWISE, "AVG", "PREMUL_SUM"):
        if op == getattr(dist.ReduceOp, name):
            refuse_named(name, tensor)


def refuse_named(name: str, tensor: Tensor) -> None:
    """The same for the name of a reduction."""
    if name in BITWISE:
        raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")
    if name == "AVG" and tensor.dtype is torch.bool:
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    floats = (torch.float16, torch.float32, torch.float64, torch.bfloat16)
    if name == "PREMUL_SUM" and tensor.dtype not in floats:
        raise TypeError("PreMulSum Data type must be half, float, bfloat16 or double")
