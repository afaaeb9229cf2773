"""Simulated GPUs: a card with its memory and random numbers, and allocations on it."""

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.pools import Block
from cudasim.device.sizes import BLOCK
from cudasim.device.specs import Card

# Of the cards' identities.
_NAMESPACE = uuid.UUID("b6f5c1a0-0000-4000-8000-c0da51000000")


class GPU:
    """One simulated GPU that the program sees."""

    def __init__(self, machine: "Machine", number: int, index: int) -> None:
        """Make the GPU with this `index` out of card `number` of the machine.

        They differ where the program sees only some of the cards.
        """
        card = machine.card
        self.card = card
        self.type = card.type
        self.name = machine.name
        self.index = index
        self.number = number
        self.device = torch.device(card.type.name, index)
        self.uuid = machine.identity(number)
        # Until its simulation ends, or its context is lost. Tensors may live longer.
        self.alive = True
        # Makes the error for any use of the GPU after its context was lost.
        self.lost: Callable[[], Exception] | None = None
        self.memory = Memory(index, card.memory, card.type)
        self.generator = Generator(self.device)
        self.generator.manual_seed(torch.initial_seed())

    def lose(self, error: Callable[[], Exception]) -> None:
        """Lose the context: from now on any use of the GPU raises what `error` makes."""
        self.alive = False
        self.lost = error
        self.memory.set_check(self.check)

    def recover(self) -> None:
        """Give the GPU a new context, as a new process would; its tensors stay."""
        if self.lost is not None:
            self.alive = True
            self.lost = None
            self.memory.set_check(None)

    def check(self) -> None:
        if self.lost is not None:
            raise self.lost()


class Machine(NamedTuple):
    """A machine with a `number` of equal cards; their times may be `modelled`."""

    card: Card
    number: int
    modelled: bool = False

    @property
    def name(self) -> str:
        time = ", modelled time" if self.modelled else ""
        return f"Simulated GPU ({self.card.name}{time})"

    def identity(self, number: int) -> uuid.UUID:
        """Return the identity of card `number`, which is the same on every run."""
        return uuid.uuid5(_NAMESPACE, f"{self.card.name} {number}")

    def uuids(self) -> list[str]:
        return [f"GPU-{self.identity(number)}" for number in range(self.number)]

    def gpus(self, numbers: Sequence[int]) -> list[GPU]:
        return [GPU(self, number, index) for index, number in enumerate(numbers)]


class Allocation:
    """The tag of a storage: its GPU, and the memory that it gives back when it dies."""

    __slots__ = ("gpu", "held", "requested")

    def __init__(self, gpu: GPU, size: int) -> None:
        """Take `size` bytes of `gpu`'s memory, rounded up as CUDA does; none for 0."""
        self.gpu = gpu
        self.requested = size
        memory = gpu.memory
        left = memory.slack - size - BLOCK
        if left >= 0:  # it surely fits, so a line in the log will do
            memory.slack = left
            self.held = held = [size]
            memory.log.append(held)
        elif size:
            self.held = None  # for `__del__`, if there is no room
            self.held = [memory.take(size)]
        else:
            self.held = None

    @property
    def block(self) -> Block | None:
        if self.held is None:
            return None
        if type(self.held[0]) is int:
            self.gpu.memory.settle()
        return self.held[0]

    def __del__(self) -> None:
        if self.held is not None:
            self.gpu.memory.give_back(self.held)

    def resize(self, size: int) -> None:
        """Follow a storage that was resized.

        CUDA copies to a new block and frees the old one, so peaks count both.
        """
        if size != self.requested:
            new = Allocation(self.gpu, size)
            new.held, self.held = self.held, new.held
            new.requested, self.requested = self.requested, size
