"""`torch.mps` and `torch.backends.mps`, answered by the simulated device."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cudasim.backends.accelerator import refuse, wait
from cudasim.backends.memory import empty_cache
from cudasim.backends.streams import Event
from cudasim.device.gpu import GPU
from cudasim.patching import Patches
from cudasim.session import session

PAGE = 16 * 2**10  # bytes, on Apple silicon
MACOS = (15, 0)  # the version that the simulated machine has
LIMIT = 1.7  # of what Metal recommends: MPSAllocator.h's default_high_watermark_ratio


def recommended(gpu: GPU) -> int:
    """How many bytes Metal recommends that a program uses: two thirds of a 16 GB Mac's memory.

    That is `MTLDevice.recommendedMaxWorkingSetSize`; llama.cpp prints it as 11453.25 MB.
    """
    return -(-gpu.card.memory * 2 // 3 // PAGE) * PAGE


def bindings() -> dict[str, Callable]:
    """What stands for the functions of `torch._C`, by name."""
    shaders = refuse("cudasim: a simulated GPU runs no Metal source")
    traces = refuse("cudasim: there are no signposts to trace on a simulated GPU")
    gpu = session.current()
    numbers, events = itertools.count(1), {}  # `torch.mps.Event` knows an event by a number

    def acquire(enable_timing: bool) -> int:
        number = next(numbers)
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
        "_mps_currentAllocatedMemory": lambda: gpu.memory.counts.used,
        "_mps_driverAllocatedMemory": lambda: gpu.memory.reserved,
        "_mps_recommendedMaxMemory": lambda: gpu.memory.size,
        "_mps_acquireEvent": acquire,
        "_mps_releaseEvent": lambda number: events.pop(number, None),  # or of an earlier simulation
        "_mps_recordEvent": lambda number: events[number].record(),
        "_mps_waitForEvent": lambda number: None,
        "_mps_queryEvent": lambda number: True,
        "_mps_synchronizeEvent": lambda number: None,
        "_mps_elapsedTimeOfEvents": lambda start, end: events[start].elapsed_time(events[end]),
        "_mps_compileShader": shaders,
        "_mps_loadMetalllib": shaders,
        "_mps_loadMetallibFromPath": shaders,
        "_mps_profilerStartTrace": traces,
        "_mps_profilerStopTrace": traces,
    }


def patch_mps(patches: Patches) -> None:
    """Make `torch.mps` and `torch.backends.mps` report the simulated device."""
    memory = session.current().memory
    memory.size = recommended(session.current())
    memory.set_fraction(LIMIT)
    for name, function in bindings().items():
        patches.replace(torch._C, name, function)
    patches.replace(torch._C, "_has_mps", True)
    patches.replace(torch.mps, "_default_mps_generator", session.current().generator)
    patches.wrap(F, "linear", linear)
    patches.forget(torch.backends.mps)


def linear(original: Callable, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """`F.linear`, which MPS computes by a kernel of its own that compares devices itself.

    The texts are those of `aten/src/ATen/native/mps/operations/Linear.mm`.
    """
    named = {"input": input, "weight": weight, "bias": bias}
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if any(tensor.is_mps for tensor in tensors.values()):
        for name, tensor in tensors.items():
            if tensor.device.type == "cpu":
                raise RuntimeError(
                    f"Tensor for argument {name} is on {tensor.device} but expected on mps"
                )
    return original(input, weight, bias)
