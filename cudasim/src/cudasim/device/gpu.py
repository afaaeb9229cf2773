"""A simulated GPU: a card, its memory and its random numbers; and a share of that memory."""

import uuid

import torch

from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.specs import Card

_NAMESPACE = uuid.UUID("b6f5c1a0-0000-4000-8000-c0da51000000")  # of the cards' identities


class GPU:
    """One simulated GPU: a card, an index, its memory and its random numbers."""

    def __init__(self, index: int, card: Card, modelled: bool = False) -> None:
        """GPU number `index`, a `card`, with nothing in its memory; its times may be modelled."""
        self.index, self.card, self.type = index, card, card.type
        self.name = f"Simulated GPU ({card.name}{', modelled time' if modelled else ''})"
        self.device = torch.device(card.type.name, index)
        self.uuid = uuid.uuid5(_NAMESPACE, f"{card.name} {index}")  # the same on every run
        self.alive = True  # until its simulation ends; tensors on it may live longer
        self.lost = False  # its context, to an assertion in a kernel
        self.memory = Memory(index, card.memory, card.type)
        self.generator = Generator(self.device)
        self.generator.manual_seed(torch.initial_seed())


class Allocation:
    """The tag that a storage carries: its GPU, and the block that it gives back when it dies."""

    __slots__ = ("block", "gpu", "requested")

    def __init__(self, gpu: GPU, size: int) -> None:
        """Take `size` bytes, rounded up as CUDA does, of `gpu`'s memory; none for 0."""
        self.gpu, self.requested, self.block = gpu, size, None
        if size:
            self.block = gpu.memory.take(size)

    @property
    def size(self) -> int:
        """The bytes that it holds."""
        return 0 if self.block is None else self.block.size

    def __del__(self) -> None:
        """Give the bytes back: the last tensor of the storage is gone."""
        if self.block is not None:
            self.gpu.memory.give_back(self.block)

    def resize(self, size: int) -> None:
        """Follow a storage whose size has changed to `size` bytes.

        CUDA allocates a new block, copies, and frees the old one: the peak sees both.
        """
        if size == self.requested:
            return
        new = Allocation(self.gpu, size)
        new.block, self.block = self.block, new.block
        new.requested, self.requested = self.requested, new.requested
