"""What a collective asks for, to be compared between the ranks of its group.

The words are those of PyTorch's own check under TORCH_DISTRIBUTED_DEBUG=DETAIL
(torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp). It compares shapes; NCCL counts elements,
and so does this: what runs on GPUs is not refused.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.tags import device_of


class Kind(NamedTuple):
    """A kind of collective: its name, and where its operator has what must agree."""

    name: str
    compared: int | None = None  # the argument whose tensors are of one size on every rank
    root: int | None = None  # the argument that names a rank


KINDS = {
    "allreduce_": Kind("ALLREDUCE", 0),
    "allreduce_coalesced_": Kind("ALLREDUCE_COALESCED", 0),
    "broadcast_": Kind("BROADCAST", 0, 2),
    "reduce_": Kind("REDUCE", 0, 3),
    "allgather_": Kind("ALLGATHER", 0),  # what comes: inputs may be of different sizes
    "allgather_coalesced_": Kind("ALLGATHER_COALESCED", 1),
    "_allgather_base_": Kind("_ALLGATHER_BASE", 1),
    "allgather_into_tensor_coalesced_": Kind("ALLGATHER_INTO_TENSOR_COALESCED", 1),
    "reduce_scatter_": Kind("REDUCE_SCATTER", 1),
    "_reduce_scatter_base_": Kind("_REDUCE_SCATTER_BASE", 1),
    "reduce_scatter_tensor_coalesced_": Kind("REDUCE_SCATTER_TENSOR_COALESCED", 1),
    "alltoall_": Kind("ALLTOALL"),  # each pair of ranks agrees on a size of its own
    "alltoall_base_": Kind("ALLTOALL_BASE"),
    "gather_": Kind("GATHER", 1, 3),
    "scatter_": Kind("SCATTER", 0, 3),
    "barrier": Kind("BARRIER"),
    "send": Kind("SEND"),
    "recv_": Kind("RECV"),
}


class Request(NamedTuple):
    """What one rank asks for."""

    kind: Kind
    tensors: list[Tensor]
    compared: list[Tensor]  # those of its tensors that are of one size on every rank
    root: int | None


def request_of(func: Callable, args: tuple) -> Request:
    """The request that the operator `func` of `torch.ops.c10d` makes."""
    kind = KINDS[func._schema.name.removeprefix("c10d::")]
    compared = [] if kind.compared is None else tensors_in((args[kind.compared],))
    tensors = [] if kind.name == "BARRIER" else tensors_in(args)  # its own is C++'s
    return Request(kind, tensors, compared, None if kind.root is None else args[kind.root])


def fingerprint(request: Request, number: int) -> tuple[list, str]:
    """(what must be equal on every rank, the same in words) of collective `number` of a group."""
    kind, tensors, compared, root = request
    if not compared:  # sizes may differ, types may not
        key = [kind.name, root, [str(tensor.dtype) for tensor in tensors[:1]]]
        return key, worded(number, kind.name, [], tensors[:1], root)
    key = [kind.name, root, [[tensor.numel(), str(tensor.dtype)] for tensor in compared]]
    return key, worded(number, kind.name, compared, compared[:1], root)


def worded(
    number: int, name: str, shapes: list[Tensor], types: list[Tensor], root: int | None
) -> str:
    """The words of a fingerprint: sizes of `shapes`, types and devices of `types`."""
    parts = [f"SequenceNumber={number}", f"OpType={name}"]
    if shapes:
        sizes = [str(list(tensor.shape)) for tensor in shapes]
        if len(set(sizes)) == 1 and name not in ("ALLREDUCE_COALESCED",):
            sizes = sizes[:1]
        parts.append(f"TensorShape={', '.join(sizes)}")
    for tensor in types:
        parts.append(f"TensorDtypes={scalar_type(tensor.dtype)}")
        parts.append(f"TensorDeviceTypes={device_of(tensor).type}")
    if root is not None:
        parts.append(f"Root={root}")
    return f"CollectiveFingerPrint({', '.join(parts)})"


def work_of(request: Request, number: int) -> str:
    """What the watchdog calls a collective, or a send or recv."""
    tensors = request.tensors
    numel = f", NumelIn={tensors[-1].numel()}, NumelOut={tensors[0].numel()}" if tensors else ""
    return f"WorkNCCL(SeqNum={number}, OpType={request.kind.name}{numel})"


def scalar_type(dtype: torch.dtype) -> str:
    """C++'s name of a type: `Float`, `Long`, `BFloat16`."""
    name = str(dtype).removeprefix("torch.")
    return _NAMES.get(name) or name[0].upper() + name[1:]


_NAMES: dict[str, Any] = {
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bfloat16": "BFloat16",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
