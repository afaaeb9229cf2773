"""`torch.mps` and `torch.backends.mps`, answered by the simulated device."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cudasim.backends.accelerator import do_nothing, refuse, wait
from cudasim.backends.memory import empty_cache
from cudasim.backends.streams import Event
from cudasim.device.gpu import GPU
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.torch_private import devices as private

PAGE = 16 * 2**10  # bytes, on Apple silicon
MACOS = (15, 0)  # the version that the simulated machine has
LIMIT = 1.7  # of what Metal recommends: MPSAllocator.h's default_high_watermark_ratio

NO_SOURCE = partial(refuse, "cudasim: a simulated GPU runs no Metal source")
NO_TRACES = partial(
    refuse, "cudasim: there are no signposts to trace on a simulated GPU"
)

# The numbers by which `torch.mps.Event` knows events, in all simulations of a process.
_event_numbers = itertools.count(1)


class Events:
    """The events of `torch.mps`, by number. Numbers may be those of an earlier simulation."""

    def __init__(self) -> None:
        self._events: dict[int, Event] = {}

    def acquire(self, enable_timing: bool) -> int:
        number = next(_event_numbers)
        self._events[number] = Event(enable_timing=enable_timing)
        return number

    def release(self, number: int) -> None:
        self._events.pop(number, None)

    def record(self, number: int) -> None:
        self._events[number].record()

    def elapsed_time(self, start: int, end: int) -> float:
        return self._events[start].elapsed_time(self._events[end])


def functions_for(gpu: GPU) -> dict[str, Callable]:
    memory = gpu.memory
    events = Events()
    return {
        "is_available": lambda: True,
        "is_on_macos_or_newer": lambda major, minor: (major, minor) <= MACOS,
        "get_name": lambda: gpu.name,
        "get_core_count": lambda: gpu.card.processors,
        "get_default_generator": lambda: gpu.generator,
        "deviceSynchronize": wait,
        "emptyCache": empty_cache,
        "setMemoryFraction": memory.set_fraction,
        "currentAllocatedMemory": lambda: memory.counts.stat("used")["current"],
        "driverAllocatedMemory": lambda: memory.reserved,
        "recommendedMaxMemory": lambda: memory.size,
        "acquireEvent": events.acquire,
        "releaseEvent": events.release,
        "recordEvent": events.record,
        "queryEvent": lambda number: True,
        "waitForEvent": do_nothing,
        "synchronizeEvent": do_nothing,
        "elapsedTimeOfEvents": events.elapsed_time,
        "compileShader": NO_SOURCE,
        "loadMetalllib": NO_SOURCE,
        "loadMetallibFromPath": NO_SOURCE,
        "profilerStartTrace": NO_TRACES,
        "profilerStopTrace": NO_TRACES,
    }


def patch_mps(patches: Patches) -> None:
    gpu = session.current()
    # What Metal recommends: two thirds of a 16 GB Mac's; llama.cpp prints 11453.25 MB.
    gpu.memory.size = -(-gpu.card.memory * 2 // 3 // PAGE) * PAGE
    gpu.memory.set_fraction(LIMIT)
    patches.bind(private.MPS, functions_for(gpu))
    patches.replace(*private.HAS_MPS, True)
    patches.replace(*private.DEFAULT_MPS_GENERATOR, gpu.generator)
    patches.wrap(F, "linear", linear)
    patches.forget(torch.backends.mps)


def linear(
    original: Callable, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    """Compare devices as the kernel does itself (native/mps/operations/Linear.mm)."""
    tensors = {}
    for name, value in (("input", input), ("weight", weight), ("bias", bias)):
        if isinstance(value, Tensor):
            tensors[name] = value
    if any(tensor.is_mps for tensor in tensors.values()):
        for name, tensor in tensors.items():
            if tensor.is_cpu:
                problem = f"Tensor for argument {name} is on cpu but expected on mps"
                raise RuntimeError(problem)
    return original(input, weight, bias)
