"""`torch.mps` and `torch.backends.mps`, answered by the simulated device."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cudasim.backends.accelerator import nothing, refuse, wait
from cudasim.backends.memory import empty_cache
from cudasim.backends.streams import Event
from cudasim.device.gpu import GPU
from cudasim.patching import Patches
from cudasim.session import session

PAGE = 16 * 2**10  # bytes, on Apple silicon
MACOS = (15, 0)  # the version that the simulated machine has
LIMIT = 1.7  # of what Metal recommends: MPSAllocator.h's default_high_watermark_ratio

_numbers = itertools.count(1)  # by which `torch.mps.Event` knows an event


def bindings(gpu: GPU) -> dict[str, Callable]:
    no_source = partial(refuse, "cudasim: a simulated GPU runs no Metal source")
    no_traces = partial(
        refuse, "cudasim: there are no signposts to trace on a simulated GPU"
    )
    events: dict[int, Event] = {}

    def acquire(enable_timing: bool) -> int:
        number = next(_numbers)
        events[number] = Event(enable_timing=enable_timing)
        return number

    return {
        "_mps_is_available": lambda: True,
        "_mps_is_on_macos_or_newer": lambda major, minor: (major, minor) <= MACOS,
        "_mps_get_name": lambda: gpu.name,
        "_mps_get_core_count": lambda: gpu.card.processors,
        "_mps_get_default_generator": lambda: gpu.generator,
        "_mps_deviceSynchronize": wait,
        "_mps_emptyCache": empty_cache,
        "_mps_setMemoryFraction": gpu.memory.set_fraction,
        "_mps_currentAllocatedMemory": lambda: gpu.memory.counts.stat("used")[
            "current"
        ],
        "_mps_driverAllocatedMemory": lambda: gpu.memory.reserved,
        "_mps_recommendedMaxMemory": lambda: gpu.memory.size,
        "_mps_acquireEvent": acquire,
        "_mps_releaseEvent": lambda number: events.pop(
            number, None
        ),  # or of an earlier simulation
        "_mps_recordEvent": lambda number: events[number].record(),
        "_mps_queryEvent": lambda number: True,
        **dict.fromkeys(("_mps_waitForEvent", "_mps_synchronizeEvent"), nothing),
        "_mps_elapsedTimeOfEvents": lambda start, end: events[start].elapsed_time(
            events[end]
        ),
        "_mps_compileShader": no_source,
        **dict.fromkeys(("_mps_loadMetalllib", "_mps_loadMetallibFromPath"), no_source),
        **dict.fromkeys(
            ("_mps_profilerStartTrace", "_mps_profilerStopTrace"), no_traces
        ),
    }


def patch_mps(patches: Patches) -> None:
    gpu = session.current()
    # What Metal recommends: two thirds of a 16 GB Mac's; llama.cpp prints 11453.25 MB.
    gpu.memory.size = -(-gpu.card.memory * 2 // 3 // PAGE) * PAGE
    gpu.memory.set_fraction(LIMIT)
    for name, function in bindings(gpu).items():
        patches.replace(torch._C, name, function)
    patches.replace(torch._C, "_has_mps", True)
    patches.replace(torch.mps, "_default_mps_generator", gpu.generator)
    patches.wrap(F, "linear", linear)
    patches.forget(torch.backends.mps)


def linear(
    original: Callable, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    """`F.linear`, whose kernel compares devices itself (native/mps/operations/Linear.mm)."""
    named = ("input", input), ("weight", weight), ("bias", bias)
    tensors = [(name, value) for name, value in named if isinstance(value, Tensor)]
    absent = next((name for name, tensor in tensors if tensor.is_cpu), None)
    if absent is not None and any(tensor.is_mps for _, tensor in tensors):
        raise RuntimeError(
            f"Tensor for argument {absent} is on cpu but expected on mps"
        )
    return original(input, weight, bias)
