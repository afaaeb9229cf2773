"""The types of device that can be simulated, and what PyTorch calls each of them.

Everything else asks the kind that is simulated (`gpus.kind`) for its names. Nothing here imports
torch: the environment is read before torch is.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One type of device.

    `most` is how many of them a machine can have; `usual` is how many are simulated, and `card`
    which, if a program does not say.
    """

    type: str  # as in torch.device("cuda:0"), torch.cuda and Tensor.is_cuda
    key: str  # the dispatcher's name for it, which C++ uses in names of kernels
    number: int  # C++'s number for it (c10/core/DeviceType.h)
    most: int
    usual: int
    card: str

    def word(self, number: int) -> str:
        """What `number` of them are called: `GPUs`, or `mps device`."""
        if self.type == "cuda":
            return "GPU" if number == 1 else "GPUs"
        return f"{self.type} device" if number == 1 else f"{self.type} devices"


KINDS = {
    kind.type: kind
    for kind in (
        Kind("cuda", "CUDA", 1, most=64, usual=2, card="T4"),  # more than 64 are surely a slip
        Kind("mps", "MPS", 13, most=1, usual=1, card="M1"),
        Kind("xpu", "XPU", 12, most=64, usual=2, card="Max 1100"),
    )
}


def find_kind(name: object, named: str = "device_type") -> Kind:
    """The kind called `name`. Raises ValueError, naming those there are; `named` is its source."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{named}={name!r}: unknown; choose one of {', '.join(KINDS)}")
    return kind


def check_number(gpus: object, kind: Kind, named: str = "gpus") -> int:
    """`gpus` if a machine can have so many of that kind, else ValueError; `named` is its source."""
    if isinstance(gpus, int) and not isinstance(gpus, bool) and 1 <= gpus <= kind.most:
        return gpus
    if kind.most == 1:
        raise ValueError(f"{named}={gpus!r}: a machine has exactly one {kind.type} device")
    raise ValueError(f"{named}={gpus!r}: the number of simulated GPUs is from 1 to {kind.most}")


def read_number(text: str) -> int | str:
    """The number that `text` says; `text` itself if it is none, for `check_number` to refuse."""
    return int(text) if text.isascii() and text.isdigit() else text
