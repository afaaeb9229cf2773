"""Record how much memory of a device is in use while some work runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cudasim.lab.devices import as_device
from cudasim.lab.memory import allocated
from cudasim.lab.storages import Storages
from cudasim.modes import LightMode


@contextmanager
def trace_memory(device: torch.device | str | int = 0) -> Iterator[list[int]]:
    """Yield a list to which each operation in the block appends a number of bytes.

    The number is how much more memory is in use on the device after the operation than at
    the beginning of the block. It may be negative.

        with trace_memory() as held:
            loss = net(X).sum()
        max(held)

    On a GPU the number comes from PyTorch's allocator. On the CPU and with MPS, PyTorch
    has no allocator that counts. There the storages of all results are added up, each
    rounded up to 512 bytes, and memory that was in use before the block counts as if it
    stayed in use.
    """
    place = as_device(device)
    trace: _StoragesTrace | _AllocatorTrace
    if place.type in ("cpu", "mps"):
        trace = _StoragesTrace(place)
    else:
        before = allocated(place)
        trace = _AllocatorTrace(lambda: allocated(place) - before)
    with trace:
        yield trace.history


class _AllocatorTrace(LightMode):
    """Reads the allocator's count after each operation."""

    def __init__(self, measure: Callable[[], int]) -> None:
        super().__init__()
        self.measure = measure
        self.history: list[int] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.history.append(self.measure())
        return result


class _StoragesTrace(Storages):
    """Adds up the storages after each operation."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.history: list[int] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = super().__torch_dispatch__(function, types, args, kwargs)
        self.history.append(self.held)
        return result
