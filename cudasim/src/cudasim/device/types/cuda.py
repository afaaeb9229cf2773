"""NVIDIA's GPUs, and the results of their runtime: the errors that PyTorch makes of them."""

from cudasim.device.types.base import DeviceType

SUCCESS, NOT_INITIALIZED, INVALID_DEVICE, INVALID_HANDLE, ASSERT = 0, 3, 101, 400, 710
NOT_REGISTERED = 713
NOT_WHILE_CAPTURING, CAPTURE_FAILED, UNJOINED, UNCAPTURED_WORK = 900, 901, 904, 905

# What cudaGetErrorString says of the results that programs meet (libcudart 12.9 and 13).
WORDS = {
    SUCCESS: "no error",
    1: "invalid argument",
    2: "out of memory",
    NOT_INITIALIZED: "initialization error",
    100: "no CUDA-capable device is detected",
    INVALID_DEVICE: "invalid device ordinal",
    209: "no kernel image is available for execution on the device",
    NOT_REGISTERED: "pointer does not correspond to a registered memory region",
    INVALID_HANDLE: "invalid resource handle",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    ASSERT: "device-side assert triggered",
    716: "misaligned address",
    719: "unspecified launch failure",
    801: "operation not supported",
    NOT_WHILE_CAPTURING: "operation not permitted when stream is capturing",
    CAPTURE_FAILED: "operation failed due to a previous error during capture",
    UNJOINED: "capturing stream has unjoined work",
    UNCAPTURED_WORK: "dependency created on uncaptured work in another stream",
    999: "unknown error",
}

# What CUDA calls those that PyTorch raises here (driver_types.h).
_NAMES = {
    NOT_INITIALIZED: "cudaErrorInitializationError",
    INVALID_HANDLE: "cudaErrorInvalidResourceHandle",
    NOT_WHILE_CAPTURING: "cudaErrorStreamCaptureUnsupported",
    CAPTURE_FAILED: "cudaErrorStreamCaptureInvalidated",
    UNJOINED: "cudaErrorStreamCaptureUnjoined",
    UNCAPTURED_WORK: "cudaErrorStreamCaptureIsolation",
    ASSERT: "cudaErrorAssert",
}

# What c10/cuda/CUDAMiscFunctions.cpp adds since https://github.com/pytorch/pytorch/pull/181011, in
# 2.13: help for the result; advice, another one for what kernels did, as that is told late; and a
# line for all.
_OUT_OF_RANGE = "GPU device may be out of range, do you have enough GPUs?"
_SEARCH = (
    "Search for `{}' in https://docs.nvidia.com/cuda/"
    "cuda-runtime-api/group__CUDART__TYPES.html for more information."
)
_LATE = {700, ASSERT, 715, 716, 719}
_LATER = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
_LOG = "For more detailed error information, run with CUDA_LOG_FILE=stderr"
_COMPILE = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


class CUDA(DeviceType):
    """NVIDIA's GPUs.

    A process that uses one makes a CUDA context there, with the code of kernels and memory for
    the driver, which stays until the process ends. How large it is depends on the card, the
    driver and the build of PyTorch, which loads kernels when they are first called. `context` is
    a model with one figure: on a T4 a program had 4.11 GiB in use, 3.72 GiB and 264.21 MiB of it
    PyTorch's (https://github.com/Zheng-Chong/CatVTON/issues/133), which leaves 135 MiB.
    """

    name, key, number, card = "cuda", "CUDA", 1, "T4"
    kernel_suffix = "cuda"
    context = 135 * 2**20
    memory_in_use = "Including non-PyTorch memory, this process has {} memory in use. "
    memory_advice = (
        "If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
    has_cudnn = pins_copies = lists_kernels = True

    def word(self, number: int) -> str:
        """What `number` of them are called: `GPUs`."""
        return "GPU" if number == 1 else "GPUs"

    def tensor_type(self, name: str) -> str:
        """How C++ prints the type that Python calls `name`: the same."""
        return name

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        """That of the runtime."""
        return runtime_error(INVALID_DEVICE)

    def assertion(self) -> RuntimeError | None:
        """That of the runtime."""
        return runtime_error(ASSERT)

    def lost_by_fork(self) -> RuntimeError:
        """That of the runtime, which cannot begin there."""
        return runtime_error(NOT_INITIALIZED)

    def elapsed_between_devices(self) -> RuntimeError | None:
        """That of the runtime."""
        return runtime_error(INVALID_HANDLE)


def words(result: int) -> str:
    """What CUDA calls the result with that number."""
    return WORDS.get(result, "a result of CUDA that cudasim has no words for")


def runtime_error(result: int) -> RuntimeError:
    """What PyTorch raises for that result of a call of its own (c10/cuda/CUDAException.cpp)."""
    import torch

    help = _OUT_OF_RANGE if result == INVALID_DEVICE else _SEARCH.format(_NAMES[result])
    advice = _LATER if result in _LATE else _LOG
    lines = f"CUDA error: {words(result)}", help, advice, _COMPILE
    raised = torch.AcceleratorError("\n".join(lines))
    raised.error_code = result
    return raised
