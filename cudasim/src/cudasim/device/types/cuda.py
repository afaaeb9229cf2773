"""NVIDIA's GPUs, and the results of their runtime: the errors that PyTorch makes of them."""

import os
from functools import partial
from typing import Any

from cudasim.device.types.base import DeviceType, in_units
from cudasim.words import WORDS

SUCCESS, NOT_INITIALIZED, INVALID_DEVICE, INVALID_HANDLE, ASSERT = 0, 3, 101, 400, 710
NOT_REGISTERED = 713
NOT_WHILE_CAPTURING, CAPTURE_FAILED, UNJOINED, UNCAPTURED_WORK = 900, 901, 904, 905

SAID = WORDS["CUDA"]
# The results that programs meet: what CUDA calls them, after `cudaError` (driver_types.h), and
# what cudaGetErrorString says (libcudart 12.9 and 13).
RESULTS = {int(number): each for number, each in WORDS["results of CUDA"].items()}


def words(result: int) -> str:
    return RESULTS.get(result, ("", "a result of CUDA that cudasim has no words for"))[
        1
    ]


def runtime_error(result: int) -> RuntimeError:
    """What PyTorch raises for a result (CUDAException.cpp and CUDAMiscFunctions.cpp of 2.13)."""
    import torch

    name, said = RESULTS[result]
    help = SAID["no such device" if result == INVALID_DEVICE else "search"].format(
        name=name
    )
    advice = SAID["block" if result == ASSERT else "log"]
    raised = torch.AcceleratorError(
        SAID["error"].format(said=said, help=help, advice=advice)
    )
    raised.error_code = result
    return raised


class CUDA(DeviceType):
    """NVIDIA's GPUs.

    A process that uses one has a CUDA context there, whose size depends on the card, the driver and
    what kernels are loaded. `context` is a model: on a T4 a program had 4.11 GiB in use, 3.72 GiB
    and 264.21 MiB of it PyTorch's (https://github.com/Zheng-Chong/CatVTON/issues/133)."""

    name, key, number, noun, card = "cuda", "CUDA", 1, "GPU", "T4"
    kernel_suffix = "cuda"
    context = 135 * 2**20

    no_such_device = staticmethod(lambda index, count: runtime_error(INVALID_DEVICE))
    assertion = staticmethod(partial(runtime_error, ASSERT))
    elapsed_between_devices = staticmethod(partial(runtime_error, INVALID_HANDLE))

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        """As in c10/cuda/CUDACachingAllocator.cpp, with what each process takes of the card."""
        import torch

        if size >= 2**60:
            return torch.OutOfMemoryError(SAID["too large"])
        used, reserved, in_use = (
            memory.counts.stat("used")["current"],
            memory.reserved,
            "",
        )
        mine = os.getpid(), memory.context + reserved
        for process, taken in sorted([mine, *memory.others()]):
            who = "Including non-PyTorch memory, this process"
            who = who if process == mine[0] else f"Process {process}"
            in_use += f"{who} has {in_units(taken)} memory in use. "
        limit = (
            f"{in_units(memory.limit)} allowed; " if memory.limit != memory.size else ""
        )
        amounts = map(in_units, (size, memory.size, memory.free, used, reserved - used))
        told = SAID["full"].format(*amounts, gpu=memory.index, others=in_use + limit)
        return torch.OutOfMemoryError(told)

    def cannot_fork(self) -> RuntimeError:
        """As in torch/cuda/__init__.py (`_lazy_init`)."""
        return RuntimeError(SAID["forked"])
