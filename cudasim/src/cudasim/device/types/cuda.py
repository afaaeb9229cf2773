"""NVIDIA's GPUs, and the errors that PyTorch makes of the results of their runtime."""

import os
from typing import Any

from cudasim.device.types.base import DeviceType, in_units
from cudasim.words import WORDS

SUCCESS = 0
INVALID_VALUE = 1
NOT_INITIALIZED = 3
INVALID_DEVICE = 101
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
ASSERT = 710
NOT_REGISTERED = 713
NOT_WHILE_CAPTURING = 900
CAPTURE_FAILED = 901
MERGED_CAPTURES = 902
UNJOINED = 904
UNCAPTURED_WORK = 905
CAPTURED_EVENT = 907
WRONG_THREAD = 908

MESSAGES = WORDS["CUDA"]
# The results that programs meet, by number: their name after `cudaError` (driver_types.h)
# and what cudaGetErrorString says (libcudart 12.9 and 13).
RESULTS = {int(number): texts for number, texts in WORDS["results of CUDA"].items()}


def words(result: int) -> str:
    """Return what cudaGetErrorString says of a result."""
    if result not in RESULTS:
        return "a result of CUDA that cudasim has no words for"
    _, text = RESULTS[result]
    return text


def runtime_error(result: int) -> RuntimeError:
    """Return what PyTorch raises for a result of the runtime.

    See CUDAException.cpp and CUDAMiscFunctions.cpp of PyTorch 2.13.
    """
    import torch

    name, text = RESULTS[result]
    help = MESSAGES["no such device" if result == INVALID_DEVICE else "search"]
    advice = "\n" + MESSAGES["block" if result == ASSERT else "log"]
    if result == ASSERT and os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        advice = ""  # it has been followed
    message = MESSAGES["error"].format(
        said=text, help=help.format(name=name), advice=advice
    )
    error = torch.AcceleratorError(message)
    error.error_code = result
    return error


class CUDA(DeviceType):
    """NVIDIA's GPUs.

    A process that uses one has a CUDA context there, whose size depends on the card, the
    driver and the kernels that are loaded. `context` is a model: on a T4 a program had
    4.11 GiB in use, of which PyTorch had 3.72 GiB and 264.21 MiB
    (https://github.com/Zheng-Chong/CatVTON/issues/133).
    """

    name = "cuda"
    key = "CUDA"
    number = 1
    noun = "GPU"
    card = "T4"
    context = 135 * 2**20

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        return runtime_error(INVALID_DEVICE)

    def assertion(self) -> RuntimeError:
        return runtime_error(ASSERT)

    def elapsed_between_devices(self) -> RuntimeError:
        return runtime_error(INVALID_HANDLE)

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        """Return the error of c10/cuda/CUDACachingAllocator.cpp.

        It says what each process takes of the card.
        """
        import torch

        if size >= 2**60:
            return torch.OutOfMemoryError(MESSAGES["too large"])
        others = self._use_by_process(memory)
        if memory.limit != memory.size:
            others += f"{in_units(memory.limit)} allowed; "
        used = memory.counts.stat("used")["current"]
        unused = memory.reserved - used
        sizes = (size, memory.size, memory.free, used, unused)
        message = MESSAGES["full"].format(
            *map(in_units, sizes), gpu=memory.index, others=others
        )
        return torch.OutOfMemoryError(message)

    def _use_by_process(self, memory: Any) -> str:
        own = os.getpid()
        sentences = ""
        processes = [(own, memory.context + memory.reserved), *memory.others()]
        for process, taken in sorted(processes):
            if process == own:
                name = "Including non-PyTorch memory, this process"
            else:
                name = f"Process {process}"
            sentences += f"{name} has {in_units(taken)} memory in use. "
        return sentences

    def cannot_fork(self) -> RuntimeError:
        """Return the error of torch/cuda/__init__.py (`_lazy_init`)."""
        return RuntimeError(MESSAGES["forked"])
