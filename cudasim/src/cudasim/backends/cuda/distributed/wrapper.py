"""PyTorch's own check of collectives, with TORCH_DISTRIBUTED_DEBUG=DETAIL.

There a `ProcessGroupWrapper` lets the ranks compare their collectives before NCCL runs
them. The roll call compares the same things here.

See torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch.distributed as dist
from torch import Tensor

from cudasim.dispatch.dtypes import scalar_type
from cudasim.dispatch.tags import device_of
from cudasim.words import WORDS

MESSAGES = WORDS["wrapper of groups"]
# The kinds of collectives, in the order of `OpType` (torch/csrc/distributed/c10d/Work.hpp).
KINDS = (
    "BROADCAST",
    "ALLREDUCE",
    "ALLREDUCE_COALESCED",
    "REDUCE",
    "ALLGATHER",
    "_ALLGATHER_BASE",
    "ALLGATHER_COALESCED",
    "GATHER",
    "SCATTER",
    "REDUCE_SCATTER",
    "ALLTOALL_BASE",
    "ALLTOALL",
    "SEND",
    "RECV",
    "RECVANYSOURCE",
    "BARRIER",
    "_REDUCE_SCATTER_BASE",
    "COALESCED",
    "_ALLREDUCE_SPARSE",
    "REDUCE_SCATTER_TENSOR_COALESCED",
)


def is_wanted() -> bool:
    """Tell whether PyTorch would wrap a group that is made now."""
    return dist.get_debug_level() == dist.DebugLevel.DETAIL


class Fingerprint(NamedTuple):
    """What PyTorch compares of a collective, with fields that JSON can hold."""

    number: int  # of the collectives that the group has run before
    kind: str
    shapes: list[list[int]] = []  # noqa: RUF012 - no one changes it
    dtypes: list[str] = []  # noqa: RUF012
    devices: list[str] = []  # noqa: RUF012

    @classmethod
    def of(cls, number: int, kind: str, tensors: Sequence[Tensor]) -> Self:
        """Return that of a collective with these tensors."""
        shapes = [list(tensor.shape) for tensor in tensors]
        dtypes = [scalar_type(tensor.dtype) for tensor in tensors]
        devices = []
        for tensor in tensors:
            devices.append(MESSAGES["device"].format(device_of(tensor).type))
        return cls(number, kind, shapes, dtypes, devices)

    @property
    def first_shape(self) -> list[str]:
        """The only shape that messages show."""
        return [str(size) for size in self.shapes[0]] if self.shapes else []

    @property
    def length(self) -> int:
        """How many numbers PyTorch sends for it."""
        numbers = 3 + len(self.dtypes) + len(self.devices)
        return numbers + sum(1 + len(shape) for shape in self.shapes)

    def as_length(self) -> "Fingerprint":
        """Return what PyTorch takes another's length for, if that differs from its own.

        It compares the lengths first, and reads the number as a whole fingerprint: a kind.
        """
        kind = KINDS[self.length] if self.length < len(KINDS) else "UNKNOWN"
        return Fingerprint(0, kind)

    def __str__(self) -> str:
        if not self.shapes:
            return MESSAGES["bare"].format(self.number, self.kind)
        return MESSAGES["fingerprint"].format(
            self.number,
            self.kind,
            ", ".join(self.first_shape),
            " ".join(self.dtypes),
            " ".join(self.devices),
        )

    def differences(self, other: "Fingerprint") -> str:
        """Return in which aspects another rank's differs (`compute_collective_diff`)."""
        text = ""
        if self.number != other.number:
            text += MESSAGES["number"].format(self.number, other.number)
        if self.kind != other.kind:
            text += MESSAGES["kind"].format(self.kind, other.kind)
        aspects = {
            "shapes": (self.first_shape, other.first_shape),
            "dtypes": (self.dtypes, other.dtypes),
            "devices": (self.devices, other.devices),
        }
        for name, (own, others) in aspects.items():
            if own != others:
                values = " ".join(own), " ".join(others)
                text += MESSAGES["tensors"].format(name, *values)
        return MESSAGES["aspects"] + text if text else ""


def compare(rank: int, fingerprints: Sequence[Fingerprint]) -> None:
    """Raise PyTorch's error on `rank` if another rank's fingerprint is not as its own."""
    own = fingerprints[rank]
    for other_rank, other in enumerate(fingerprints):
        if other.length != own.length:
            error = _mismatch(rank, own, other_rank, other.as_length())
            error.add_note(MESSAGES["length"].format(other_rank, other))
            raise error
    for other_rank, other in enumerate(fingerprints):
        if other != own:
            raise _mismatch(rank, own, other_rank, other)


def _mismatch(
    rank: int, own: Fingerprint, other_rank: int, other: Fingerprint
) -> RuntimeError:
    text = MESSAGES["mismatch"].format(rank, own, other_rank, other)
    return RuntimeError(text + own.differences(other))
