"""Simulated GPUs: a card, its memory, its random numbers, and which of them is current."""

import threading
import uuid

import torch

from cudasim.cards import Card
from cudasim.generators import Generator
from cudasim.memory import Memory

_NAMESPACE = uuid.UUID("b6f5c1a0-0000-4000-8000-c0da51000000")  # of the cards' identities


class GPU:
    """One simulated GPU: a card, an index, its memory and its random numbers."""

    def __init__(self, index: int, card: Card) -> None:
        """GPU number `index`, a `card`, with nothing in its memory."""
        self.index, self.card = index, card
        self.name = f"Simulated GPU ({card.name})"
        self.device = torch.device("cuda", index)
        self.uuid = uuid.uuid5(_NAMESPACE, f"{card.name} {index}")  # the same on every run
        self.alive = True
        self.memory = Memory(index, card.memory)
        self.generator = Generator(self.device)
        self.generator.manual_seed(torch.initial_seed())


class Allocation:
    """The tag that a storage carries: its GPU, and the bytes that it gives back when it dies."""

    __slots__ = ("gpu", "requested", "segment", "size")

    def __init__(self, gpu: GPU, size: int) -> None:
        """Take `size` bytes, rounded up as CUDA does, of `gpu`'s memory; none for 0."""
        self.gpu, self.segment, self.size, self.requested = gpu, None, 0, size
        if size:
            self.segment, self.size = gpu.memory.take(size)

    def __del__(self) -> None:
        """Give the bytes back: the last tensor of the storage is gone."""
        if self.size:
            self.gpu.memory.give_back(self.segment, self.size, self.requested)

    def resize(self, size: int) -> None:
        """Follow a storage whose size has changed to `size` bytes.

        CUDA allocates anew, copies, and frees the old block: the peak sees both.
        """
        if size == self.requested:
            return
        new = Allocation(self.gpu, size)
        new.size, self.size = self.size, new.size
        new.requested, self.requested = self.requested, new.requested
        new.segment, self.segment = self.segment, new.segment


# What c10/cuda/CUDAException.cpp says of a GPU that is not there.
INVALID_DEVICE = (
    "CUDA error: invalid device ordinal\n"
    "GPU device may be out of range, do you have enough GPUs?\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)

gpus: list[GPU] = []
_current = threading.local()


def current() -> GPU:
    """The GPU that plain `cuda` means in this thread."""
    index = getattr(_current, "index", 0)
    return gpus[index if index < len(gpus) else 0]


def set_current(index: int) -> None:
    """Let plain `cuda` mean GPU `index` in this thread."""
    _current.index = get(index).index


def get(index: int | None) -> GPU:
    """GPU number `index`, or the current one. Raises CUDA's error if there is none."""
    if index is None:
        return current()
    if not 0 <= index < len(gpus):
        raise torch.AcceleratorError(INVALID_DEVICE)
    return gpus[index]


def reset(new: list[GPU]) -> None:
    """Begin or end a simulation: `new` are the GPUs there are from now on."""
    for gpu in gpus:
        gpu.alive = False
    gpus[:] = new
    _current.__dict__.clear()
