"""Simulated GPUs: a card, its memory, its random numbers, and which of them is current."""

import threading
import uuid

import torch

from cudasim.device import metal, results
from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.specs import Card
from cudasim.device.types import KINDS

_NAMESPACE = uuid.UUID("b6f5c1a0-0000-4000-8000-c0da51000000")  # of the cards' identities


class GPU:
    """One simulated GPU: a card, an index, its memory and its random numbers."""

    def __init__(self, index: int, card: Card) -> None:
        """GPU number `index`, a `card`, with nothing in its memory."""
        self.index, self.card = index, card
        self.name = f"Simulated GPU ({card.name})"
        self.kind = card.kind
        self.check_type = metal.check_type if card.kind.type == "mps" else None
        self.device = torch.device(card.kind.type, index)
        self.uuid = uuid.uuid5(_NAMESPACE, f"{card.name} {index}")  # the same on every run
        self.alive = True
        self.memory = Memory(index, card.memory, card.kind)
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


gpus: list[GPU] = []
kind = KINDS["cuda"]  # what is simulated, or was last
_current = threading.local()


def current() -> GPU:
    """The GPU that plain `cuda` means in this thread."""
    index = getattr(_current, "index", 0)
    return gpus[index if index < len(gpus) else 0]


def set_current(index: int) -> None:
    """Let plain `cuda` mean GPU `index` in this thread."""
    _current.index = get(index).index


def get(index: int | None) -> GPU:
    """GPU number `index`, or the current one. Raises PyTorch's error if there is none.

    MPS never looks at the index: it has one device (aten/src/ATen/mps/MPSGuardImpl.h).
    """
    if index is None:
        return current()
    if 0 <= index < len(gpus):
        return gpus[index]
    if kind.most == 1:
        return gpus[0]
    raise absent(index)


def absent(index: int) -> RuntimeError:
    """The error for a GPU that is not there."""
    if kind.type == "cuda":
        return results.error(results.INVALID_DEVICE)
    return RuntimeError(  # c10/xpu/XPUFunctions.h
        f"The device index is out of range. It must be in [0, {len(gpus)}), but got {index}."
    )


def reset(new: list[GPU]) -> None:
    """Begin or end a simulation: `new` are the GPUs there are from now on."""
    global kind
    for gpu in gpus:
        gpu.alive = False
    gpus[:] = new
    if new:
        kind = new[0].kind
    _current.__dict__.clear()
