"""What NCCL, and PyTorch's group for it, refuse on one rank, in their words.

The texts are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (`check_gpu_single_tensor`,
`check_gpu_tensors_same_device`, `getNcclDataType`, `getNcclReduceOp`, `getNCCLComm`) and of
torch/csrc/cuda/nccl.cpp (`to_nccl_data_type`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.table import Collective
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import NAMES, short
from cudasim.dispatch.tags import gpu_of

FLOAT8 = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}
SCALED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
TYPES = {torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, *SCALED, *FLOAT8}
CPU = "No backend type associated with device type cpu"
LIST = "Tensor list input to scatter/gather must match number of collective participants"
MEMORY_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
dense = torch.ops.aten.is_non_overlapping_and_dense

# (names, whether numbers of a type are refused, error, words)
REDUCTIONS: list[tuple[Sequence[str], Callable[[torch.dtype], bool], type[Exception], str]] = [
    (("BAND", "BOR", "BXOR"), lambda dtype: True, ValueError, "Cannot use ReduceOp.{} with NCCL"),
    (
        ("AVG",),
        lambda dtype: dtype is torch.bool,
        TypeError,
        "Cannot use ReduceOp.{} with boolean inputs",
    ),
    (
        ("PREMUL_SUM",),
        lambda dtype: dtype not in SCALED,
        TypeError,
        "PreMulSum Data type must be half, float, bfloat16 or double",
    ),
]


class Call(NamedTuple):
    """A collective that a rank asks for, in a group of so many ranks."""

    name: str
    collective: Collective
    args: tuple
    tensors: list[Tensor]
    size: int
    bound: GPU | None  # the GPU that `init_process_group(device_id=)` named

    def gpus(self) -> set[GPU | None]:
        """Where its tensors are; None is the CPU."""
        return {gpu_of(tensor) for tensor in self.tensors}

    def together(self) -> bool:
        """True for one of several tensors at once."""
        return "coalesced" in self.name

    def scattered(self) -> bool:
        """True if what NCCL takes as it lies is not in the order of its elements."""
        direct = self.collective.direct
        places = range(len(self.args)) if direct is None else direct
        return not all(map(in_order, tensors_in([self.args[place] for place in places])))

    def root_list(self) -> list:
        """The list that only the root has."""
        place = self.collective.root_list
        return self.args[place[0]][0] if place and self.args[place[0]] else []

    def whole(self) -> Tensor:
        """The tensor with the parts of all ranks."""
        return self.args[self.collective.flat[0]]

    def part(self) -> Tensor:
        """The tensor with the part of one rank."""
        return self.args[self.collective.flat[1]]


def in_order(tensor: Tensor) -> bool:
    """True for a contiguous tensor, and one that is in the order of the channels last."""
    form = MEMORY_FORMATS.get(tensor.dim(), torch.contiguous_format)
    return tensor.is_contiguous() or tensor.is_contiguous(memory_format=form)


# (whether a call is refused, error, words); the first that holds is raised.
Refusal = tuple[Callable[[Call], Any], type[Exception], str]
DEVICES: list[Refusal] = [
    (
        lambda call: call.name == "recv_any_source_",
        NotImplementedError,
        "ProcessGroupNCCL does not support recvAnysource",
    ),
    (
        lambda call: None in call.gpus() or any(tensor.is_sparse for tensor in call.tensors),
        ValueError,
        "Tensors must be CUDA and dense",
    ),
    (lambda call: len(call.gpus()) > 1, ValueError, "Expected list of tensors on the same device"),
    (
        lambda call: call.bound is not None and call.gpus() != {call.bound},
        dist.DistBackendError,
        "Attempt to perform collective on tensor not on device passed to init_process_group",
    ),
]
LAYOUTS: list[Refusal] = [
    (
        lambda call: call.together() and len({tensor.dtype for tensor in call.tensors}) > 1,
        TypeError,
        "Tensors must have identical type",
    ),
    (
        lambda call: call.together() and not all(map(dense, call.tensors)),
        ValueError,
        "Tensors must be non-overlapping and dense",
    ),
    (
        lambda call: not call.together() and call.scattered(),
        ValueError,
        "Tensors must be contiguous",
    ),
    (
        lambda call: (
            call.collective.each is not None
            and len(tensors_in((call.args[call.collective.each],))) != call.size
        ),
        ValueError,
        LIST,
    ),
    (
        lambda call: call.root_list() and len(call.root_list()) != call.size,
        ValueError,
        "ProcessGroupNCCL::{call.collective.word}: Incorrect {list} list size {number}. {List} "
        "list size should be {call.size}, same as size of the process group.",
    ),
    (
        lambda call: call.collective.flat and call.whole().dtype != call.part().dtype,
        TypeError,
        "{call.collective.flat[2]}",
    ),
    (
        lambda call: (
            call.collective.flat and call.whole().numel() != call.part().numel() * call.size
        ),
        ValueError,
        "{call.collective.flat[3]}",
    ),
]


def refuse(call: Call, refusals: Iterable[Refusal] = (*DEVICES, *LAYOUTS)) -> None:
    """Raise the error with which the group refuses what a call hands to it."""
    for refused, error, words in refusals:
        if refused(call):
            name = (call.collective.root_list or (0, ""))[1]
            number = len(call.root_list())
            raise error(words.format(call=call, list=name, List=name.capitalize(), number=number))
    refuse_types(call.collective, call.tensors)


def refuse_types(collective: Collective, tensors: list[Tensor]) -> None:
    """Refuse what NCCL cannot send, and what it cannot add.

    Complex numbers go as pairs of real ones, but for what is made of sends and receives.
    """
    for tensor in tensors:
        dtype, pairwise = tensor.dtype, collective.pairwise
        if dtype not in TYPES and pairwise:
            raise RuntimeError(f"Unconvertible NCCL type {scalar_type(dtype)}")
        if dtype not in TYPES and not dtype.is_complex:
            raise TypeError(
                "Input tensor data type is not supported for NCCL process group: "
                f"{scalar_type(dtype)}"
            )
        if collective.adds and dtype in FLOAT8:
            raise RuntimeError("Float8 dtypes are not currenlty supported for NCCL reductions")


def refuse_reduction(op: Any, dtype: torch.dtype) -> None:
    """Refuse a reduction, by name or as a ReduceOp, that NCCL does not know for that type."""
    for names, refused, error, words in REDUCTIONS:
        for name in names:
            asked = op == (name.lower() if isinstance(op, str) else getattr(dist.ReduceOp, name))
            if asked and refused(dtype):
                raise error(words.format(name))


def scalar_type(dtype: torch.dtype) -> str:
    """C++'s name of a type: `Float`, `UInt16`, `Float8_e5m2`."""
    name = short(dtype).replace("uint", "uInt")
    return NAMES.get(dtype) or name[0].upper() + name[1:]
