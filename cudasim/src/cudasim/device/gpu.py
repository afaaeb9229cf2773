"""A simulated GPU: a card, its memory and its random numbers; and a share of that memory."""

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from cudasim.device.allocator import Memory
from cudasim.device.generator import Generator
from cudasim.device.pools import Block
from cudasim.device.sizes import BLOCK
from cudasim.device.specs import Card

_NAMESPACE = uuid.UUID(
    "b6f5c1a0-0000-4000-8000-c0da51000000"
)  # of the cards' identities


class GPU:
    def __init__(self, machine: "Machine", number: int, index: int) -> None:
        """`number` is the card's in the machine, of which the program may see some only."""
        self.card = card = machine.card
        self.index, self.number, self.type, self.name = (
            index,
            number,
            card.type,
            machine.name,
        )
        self.device = torch.device(card.type.name, index)
        self.uuid = machine.identity(number)
        self.alive = True  # until its simulation ends; tensors on it may live longer
        # What whoever uses it raises, where its context is lost though the simulation goes on.
        self.lost: Callable[[], Exception] | None = None
        self.memory = Memory(index, card.memory, card.type)
        self.generator = Generator(self.device)
        self.generator.manual_seed(torch.initial_seed())

    def lose(self, error: Callable[[], Exception]) -> None:
        """Lose the context: from now on who uses the GPU gets the error that `error` makes."""
        self.alive, self.lost = False, error
        self.memory.change(check=self.check)

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
        return f"Simulated GPU ({self.card.name}{', modelled time' if self.modelled else ''})"

    def identity(self, number: int) -> uuid.UUID:
        """The same on every run, for the card with that `number`."""
        return uuid.uuid5(_NAMESPACE, f"{self.card.name} {number}")

    def uuids(self) -> list[str]:
        return [f"GPU-{self.identity(number)}" for number in range(self.number)]

    def gpus(self, numbers: Sequence[int]) -> list[GPU]:
        return [GPU(self, number, index) for index, number in enumerate(numbers)]


class Allocation:
    """The tag that a storage carries: its GPU, and the memory that it gives back when it dies."""

    __slots__ = ("gpu", "held", "requested")

    def __init__(self, gpu: GPU, size: int) -> None:
        """Take `size` bytes, rounded up as CUDA does, of `gpu`'s memory; none for 0."""
        self.gpu, self.requested, memory = gpu, size, gpu.memory
        left = memory.slack - size - BLOCK
        if left >= 0:
            memory.slack = left
            self.held = held = [size]
            memory.log.append(held)
        else:
            self.held = None
            if size:
                self.held = [memory.take(size)]

    @property
    def block(self) -> Block | None:
        if self.held and type(self.held[0]) is int:
            self.gpu.memory.settle()
        return self.held and self.held[0]

    def __del__(self) -> None:
        if self.held is not None:
            self.gpu.memory.give_back(self.held)

    def resize(self, size: int) -> None:
        """Follow a storage. CUDA copies to a new block and frees the old one: peaks see both."""
        if size != self.requested:
            new = Allocation(self.gpu, size)
            new.held, self.held = self.held, new.held
            new.requested, self.requested = self.requested, size
