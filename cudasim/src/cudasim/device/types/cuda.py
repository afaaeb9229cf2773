"""NVIDIA's GPUs, and the results of their runtime: the errors that PyTorch makes of them."""

import os
from functools import partial
from typing import Any

from cudasim.device.types.base import DeviceType, in_units

SUCCESS, NOT_INITIALIZED, INVALID_DEVICE, INVALID_HANDLE, ASSERT = 0, 3, 101, 400, 710
NOT_REGISTERED = 713
NOT_WHILE_CAPTURING, CAPTURE_FAILED, UNJOINED, UNCAPTURED_WORK = 900, 901, 904, 905

# The results that programs meet: what CUDA calls them, after `cudaError` (driver_types.h), and
# what cudaGetErrorString says (libcudart 12.9 and 13).
RESULTS = {
    0: ("", "no error"),
    1: ("InvalidValue", "invalid argument"),
    2: ("MemoryAllocation", "out of memory"),
    3: ("InitializationError", "initialization error"),
    100: ("NoDevice", "no CUDA-capable device is detected"),
    101: ("InvalidDevice", "invalid device ordinal"),
    209: ("NoKernelImageForDevice", "no kernel image is available for execution on the device"),
    400: ("InvalidResourceHandle", "invalid resource handle"),
    700: ("IllegalAddress", "an illegal memory access was encountered"),
    701: ("LaunchOutOfResources", "too many resources requested for launch"),
    710: ("Assert", "device-side assert triggered"),
    713: ("HostMemoryNotRegistered", "pointer does not correspond to a registered memory region"),
    716: ("MisalignedAddress", "misaligned address"),
    719: ("LaunchFailure", "unspecified launch failure"),
    801: ("NotSupported", "operation not supported"),
    900: ("StreamCaptureUnsupported", "operation not permitted when stream is capturing"),
    901: ("StreamCaptureInvalidated", "operation failed due to a previous error during capture"),
    904: ("StreamCaptureUnjoined", "capturing stream has unjoined work"),
    905: ("StreamCaptureIsolation", "dependency created on uncaptured work in another stream"),
    999: ("Unknown", "unknown error"),
}


def words(result: int) -> str:
    return RESULTS.get(result, ("", "a result of CUDA that cudasim has no words for"))[1]


def runtime_error(result: int) -> RuntimeError:
    """What PyTorch raises for a result (CUDAException.cpp and CUDAMiscFunctions.cpp of 2.13)."""
    import torch

    name, said = RESULTS[result]
    page = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
    help = f"Search for `cudaError{name}' in {page} for more information."
    if result == INVALID_DEVICE:
        help = "GPU device may be out of range, do you have enough GPUs?"
    advice = "For more detailed error information, run with CUDA_LOG_FILE=stderr"
    if result == ASSERT:
        advice = (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the "
            "stacktrace below might be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
    end = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    raised = torch.AcceleratorError(f"CUDA error: {said}\n{help}\n{advice}\n{end}")
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
            words = "CUDA out of memory. Tried to allocate more than 1EB memory."
            return torch.OutOfMemoryError(words)
        used, reserved, in_use = memory.counts.used, memory.reserved, ""
        mine = os.getpid(), memory.context + reserved
        for process, taken in sorted([mine, *memory.others()]):
            who = "Including non-PyTorch memory, this process"
            who = who if process == mine[0] else f"Process {process}"
            in_use += f"{who} has {in_units(taken)} memory in use. "
        limit = f"{in_units(memory.limit)} allowed; " if memory.limit != memory.size else ""
        return torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {in_units(size)}. GPU {memory.index} has a "
            f"total capacity of {in_units(memory.size)} of which {in_units(memory.free)} is free. "
            f"{in_use}{limit}Of the allocated memory {in_units(used)} is allocated by PyTorch, and "
            f"{in_units(reserved - used)} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
            "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
            "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        )

    def cannot_fork(self) -> RuntimeError:
        """As in torch/cuda/__init__.py (`_lazy_init`)."""
        words = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing,"
        return RuntimeError(f"{words} you must use the 'spawn' start method")
