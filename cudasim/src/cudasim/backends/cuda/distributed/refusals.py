"""What NCCL, and PyTorch's group for it, refuse on one rank, in their words.

The texts are those of torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
(`check_gpu_single_tensor`, `check_gpu_tensors_same_device`, `getNcclDataType`,
`getNcclReduceOp`, `initNCCLComm`, and the checks that each collective begins with), of
ProcessGroup.hpp (`getBackend`), of torch/csrc/cuda/nccl.cpp (`to_nccl_data_type`), and of
NCCL's src/enqueue.cc and src/misc/argcheck.cc.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed import errors, logs
from cudasim.backends.cuda.distributed.rollcall import Roll
from cudasim.backends.cuda.distributed.table import COLLECTIVES, Collective
from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.dtypes import scalar_type
from cudasim.dispatch.layouts import CHANNELS_LAST
from cudasim.dispatch.tags import gpu_of
from cudasim.words import WORDS

# Those that NCCL adds up itself, on cards that can, and those that travel as bytes.
REDUCED_FLOAT8 = {torch.float8_e4m3fn, torch.float8_e5m2}
OPAQUE_FLOAT8 = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
FLOAT8 = REDUCED_FLOAT8 | OPAQUE_FLOAT8
FLOAT8_CAPABILITY = (9, 0)  # the least of a card that takes REDUCED_FLOAT8
SCALED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
INTEGERS = {torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64}
TYPES = INTEGERS | SCALED | FLOAT8
# PyTorch turns complex numbers into pairs of real ones for these.
VIEWED_AS_REAL = ("allreduce_", "broadcast_", "reduce_")
MESSAGES = WORDS["NCCL"]
CPU = MESSAGES["cpu"]
# By operator, what is said where the parts are of other types than the whole, or sizes.
FLAT = WORDS["flat collectives"]
# Those that are one broadcast or reduction for each rank, where the parts differ in shape.
PART_BY_PART = {"allgather_": "_broadcast_oop", "reduce_scatter_": "_reduce_oop"}
is_dense = torch.ops.aten.is_non_overlapping_and_dense


def refuse_operators(name: str, tensors: list[Tensor]) -> None:
    """Refuse the operators that a group of NCCL does not have."""
    if name == "recv_any_source_":
        raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")
    if name == "allgather_coalesced_":
        raise NotImplementedError(
            "ProcessGroupNCCL does not support allgather_coalesced"
        )
    if name == "allreduce_" and any(tensor.is_sparse for tensor in tensors):
        raise RuntimeError(MESSAGES["sparse"])


def refuse_roots(name: str, root: int | None, size: int) -> None:
    """Refuse a root outside of the group where PyTorch's group does."""
    word = COLLECTIVES[name].word
    if word in ("gather", "scatter") and root not in range(size):
        raise ValueError(MESSAGES["root rank"].format(word, root))


def refuse_several(name: str, args: tuple) -> None:
    """Refuse several tensors of one process: PyTorch had them on a GPU each, once."""
    collective = COLLECTIVES[name]
    if "coalesced" in name or collective.word == "all_to_all":
        return
    own = args[0] if collective.parts is None else args[1 - collective.parts]
    if isinstance(own, list) and len(own) != 1:
        raise RuntimeError(MESSAGES["several"])


def refuse_ranks(name: str, rank: int, roll: Roll) -> None:
    """Refuse a root or a peer outside of the group where NCCL does."""
    if rank in range(roll.size):
        return
    word = COLLECTIVES[name].word
    error = errors.invalid_root(word, rank, roll.size)
    is_message = word in ("send", "recv")
    if is_message and not (roll.is_eager or roll.messages_to_self.is_batch):
        error.add_note(MESSAGES["no peer"].format(rank, roll.size))
    raise error


def refuse_devices(tensors: list[Tensor], bound_gpu: GPU | None) -> None:
    gpus = {gpu_of(tensor) for tensor in tensors}
    if None in gpus or any(tensor.is_sparse for tensor in tensors):
        raise ValueError("Tensors must be CUDA and dense")
    if len(gpus) > 1:
        raise ValueError("Expected list of tensors on the same device")
    if bound_gpu is not None and gpus != {bound_gpu}:
        raise dist.DistBackendError(MESSAGES["bound"])


def refuse_layouts(name: str, args: tuple, tensors: list[Tensor], size: int) -> None:
    """Refuse the arguments of an operator in a group of so many ranks."""
    collective = COLLECTIVES[name]
    if name == "allreduce_coalesced_":
        if not all(map(is_dense, tensors)):
            raise ValueError("Tensors must be non-overlapping and dense")
    for position in collective.contiguous:
        if not all(map(is_in_order, tensors_in((args[position],)))):
            raise ValueError("Tensors must be contiguous")
    if collective.word in ("send", "recv"):
        _check_message(tensors[0])

    if collective.parts is not None:
        _refuse_number(collective, args, size)
        if name in PART_BY_PART:
            _refuse_own_part(name, args)
    if collective.word in ("gather", "scatter"):
        _refuse_sizes(collective, args)
    if name in FLAT:
        _refuse_flat(name, args, size)


def _check_message(tensor: Tensor) -> None:
    """Refuse a message with gaps, and warn once of one in another order."""
    if is_in_order(tensor):
        return
    if not is_dense(tensor):
        raise ValueError("Tensors for P2P must be non-overlapping and dense")
    logs.warn_once("order")


def is_in_order(tensor: Tensor) -> bool:
    """Tell whether the elements of a tensor lie one after the other."""
    if tensor.is_contiguous():
        return True
    form = CHANNELS_LAST.get(tensor.dim(), torch.contiguous_format)
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


def _refuse_own_part(name: str, args: tuple) -> None:
    """Refuse a tensor of another length than this rank's own among parts that differ.

    Where all are of one shape, PyTorch does not compare them with the tensor
    (`allgather`, `reduce_scatter` and `_broadcast_oop` in ProcessGroupNCCL.cpp).
    """
    collective = COLLECTIVES[name]
    parts = tensors_in((args[collective.parts],))
    (own,) = tensors_in((args[1 - collective.parts],))
    if all(part.shape == parts[0].shape for part in parts):
        return
    rank = dist.ProcessGroup.unbox(args[2]).rank()
    if parts[rank].numel() != own.numel():
        function = PART_BY_PART[name]
        raise ValueError(MESSAGES["own part"].format(function))


def _refuse_sizes(collective: Collective, args: tuple) -> None:
    """Refuse parts that have not the size of the tensor that each rank has."""
    (own,) = tensors_in((args[1 - collective.parts],))
    for index, part in enumerate(tensors_in((args[collective.parts],))):
        if part.shape != own.shape:
            raise ValueError(
                MESSAGES["part size"].format(
                    word=collective.word,
                    index=index,
                    expected=_sizes(own),
                    got=_sizes(part),
                )
            )


def _sizes(tensor: Tensor) -> str:
    """Return the sizes of a tensor as C++ prints them: `(2, 3)` or `(2)`."""
    return f"({', '.join(map(str, tensor.shape))})"


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


def refuse_types(name: str, tensors: list[Tensor]) -> None:
    word = COLLECTIVES[name].word
    if name == "allreduce_coalesced_" and len({tensor.dtype for tensor in tensors}) > 1:
        raise TypeError("Tensors must have identical type")
    for tensor in tensors:
        dtype = tensor.dtype
        if dtype in OPAQUE_FLOAT8 and "reduce" in word:
            raise RuntimeError(MESSAGES["float8"])
        if dtype in TYPES or (dtype.is_complex and name in VIEWED_AS_REAL):
            continue
        if word in ("all_to_all", "gather", "scatter"):
            raise RuntimeError(f"Unconvertible NCCL type {scalar_type(dtype)}")
        raise TypeError(MESSAGES["type"].format(scalar_type(dtype)))


def refuse_old_cards(name: str, tensors: list[Tensor], gpu: GPU) -> None:
    """Refuse to reduce 8-bit floats on cards before Hopper.

    Since NCCL 2.28, collectives that only move them are not refused (`taskAppend` in its
    src/enqueue.cc).
    """
    is_reduction = "reduce" in COLLECTIVES[name].word
    if not is_reduction or REDUCED_FLOAT8.isdisjoint(t.dtype for t in tensors):
        return
    if torch.cuda.get_device_capability(gpu.device) < FLOAT8_CAPABILITY:
        raise errors.invalid_argument(MESSAGES["old card"])


def refuse_reduction(op: Any, dtype: torch.dtype) -> None:
    """Refuse a reduction, by name or as a ReduceOp, that NCCL does not know for that type."""
    for name in ("BAND", "BOR", "BXOR"):
        if is_reduction(op, name):
            raise ValueError(f"Cannot use ReduceOp.{name} with NCCL")
    if is_reduction(op, "AVG") and dtype is torch.bool:
        raise TypeError("Cannot use ReduceOp.AVG with boolean inputs")
    if is_reduction(op, "PREMUL_SUM") and dtype not in SCALED:
        raise TypeError("PreMulSum Data type must be half, float, bfloat16 or double")


def is_reduction(op: Any, name: str) -> bool:
    """Tell whether `op`, a ReduceOp or the name of one, is the one called `name`."""
    if isinstance(op, str):
        return op == name.lower()
    return op == getattr(dist.ReduceOp, name)
