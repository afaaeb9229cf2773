"""Kernels in Triton: its interpreter runs them on simulated GPUs (`TRITON_INTERPRET=1`).

The interpreter computes with NumPy. For a card it copies each argument to the host and back
(`GridExecutor` in triton/runtime/interpreter.py). The memory of a simulated GPU is the host's,
so here it reads and writes the arguments themselves.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.booking import book_bytes
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.tags import gpu_of, gpu_read
from cudasim.importing import after_import
from cudasim.patching import Patches, replaces
from cudasim.session import session
from cudasim.words import WORDS

RUNTIME = "triton.runtime"
INTERPRETER = "triton.runtime.interpreter"
# The launcher of kernels, which newer versions have in C and older ones in Python.
LAUNCHERS = ("driver.c", "driver.py")
MESSAGES = WORDS["triton"]

WARP_SIZE = 32


def patch_triton(patches: Patches) -> None:
    """Let Triton find simulated GPUs once a program imports it."""
    patches.finally_do(after_import(RUNTIME, partial(_patch_runtime, patches)))
    patches.finally_do(after_import(INTERPRETER, partial(_patch_interpreter, patches)))


def _patch_runtime(patches: Patches) -> None:
    from triton.runtime import driver, jit

    simulated = _make_driver()
    patches.replace(driver, "_default", simulated)
    patches.replace(driver, "_active", simulated)
    patches.wrap(jit.JITFunction, "run", refuse_compiled)


def _patch_interpreter(patches: Patches) -> None:
    from triton.runtime import interpreter

    patches.wrap(interpreter.InterpretedFunction, "run", run_interpreted)
    executor = interpreter.GridExecutor
    patches.wrap(executor, "_init_args_hst", share_arguments)
    patches.wrap(executor, "_restore_args_dev", restore_arguments)


def _make_driver() -> Any:
    """Return what Triton asks about its devices, for which it has no class without a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class SimulatedDriver(DriverBase):
        """The driver of simulated GPUs, with the methods of triton's `CudaDriver`."""

        @classmethod
        def is_active(cls) -> bool:
            return True

        @property
        def utils(self) -> ModuleType:
            return DeviceUtils

        def map_python_to_cpp_type(self, ty: str) -> NoReturn:
            raise RuntimeError(MESSAGES["compiled"].format("a kernel"))

        def get_current_device(self) -> int:
            return torch.cuda.current_device()

        def set_current_device(self, index: int) -> None:
            torch.cuda.set_device(index)

        def get_current_stream(self, index: int) -> int:
            return torch.cuda.current_stream(index).cuda_stream

        def get_device_capability(self, index: int) -> tuple[int, int]:
            return torch.cuda.get_device_capability(index)

        def get_current_target(self) -> GPUTarget:
            major, minor = torch.cuda.get_device_capability()
            return GPUTarget("cuda", 10 * major + minor, WARP_SIZE)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda", torch.cuda.current_device())

        def get_device_interface(self) -> ModuleType:
            return torch.cuda

        def get_benchmarker(self) -> Callable:
            return run_once

        def get_empty_cache_for_benchmark(self) -> Tensor:
            return torch.empty(1, dtype=torch.int, device="cuda")

        def clear_cache(self, cache: Tensor) -> None:
            cache.zero_()

    return SimulatedDriver()


class DeviceUtils:
    """What Triton's tutorials read of a card; the clocks of its data sheet are not known."""

    @staticmethod
    def get_device_properties(index: int) -> dict[str, int]:
        """Return what `getDeviceProperties` of triton's nvidia/driver.c returns."""
        card = torch.cuda.get_device_properties(index)
        return {
            "max_shared_mem": card.shared_memory_per_block_optin,
            "max_num_regs": card.regs_per_multiprocessor,
            "multiprocessor_count": card.multi_processor_count,
            "warpSize": WARP_SIZE,
        }


def run_once(kernel_call: Callable, quantiles: Any = None, **_: Any) -> Any:
    """Run a configuration for `triton.autotune`, which takes the first of those that run.

    How long the interpreter takes says nothing about a card.
    """
    kernel_call()
    return 0.0 if quantiles is None else [0.0] * len(quantiles)


def refuse_compiled(original: Callable, self: Any, *args, **kwargs) -> NoReturn:
    """Refuse a kernel that was not made for the interpreter."""
    raise RuntimeError(MESSAGES["compiled"].format(self.fn.__name__))


def run_interpreted(original: Callable, self: Any, *args, **kwargs) -> Any:
    """Run a kernel in the interpreter, if the current GPU can read all its pointers."""
    tensors = _tensors_in((*args, *kwargs.values()))
    if not session.gpus or kwargs.get("warmup"):
        return original(self, *args, **kwargs)  # as on a machine without GPUs

    gpu = session.gpu(None)
    for position, tensor in tensors:
        if not _can_read(gpu, tensor):
            raise ValueError(_refusal(position))
    if session.stream_key(gpu.index) in session.capturing:
        raise NotImplementedError(MESSAGES["captured"])

    out = original(self, *args, **kwargs)
    if session.clock is not None:
        size = sum(tensor.nbytes for _, tensor in tensors)
        book_bytes(gpu, self.__name__, size)
    return out


def _tensors_in(values: tuple) -> list[tuple[int, Tensor]]:
    """Return the tensors among the arguments of a kernel, with their positions."""
    tensors = []
    for position, value in enumerate(values):
        value = getattr(value, "base", value)  # of triton's TensorWrapper
        if isinstance(value, Tensor):
            tensors.append((position, value))
        elif isinstance(value, tuple):
            tensors += [(position, tensor) for _, tensor in _tensors_in(value)]
    return tensors


def _can_read(gpu: GPU, tensor: Tensor) -> bool:
    """Return whether kernels on the current GPU can read the memory of a tensor.

    The driver is asked by `cuPointerGetAttribute`. It permits pinned memory, and refuses
    that of another GPU (https://github.com/triton-lang/triton/issues/2441), unless a copy
    between the two has given access, which is not modelled.
    """
    home = gpu_read(tensor)
    return home is gpu or not tensor.numel() or (home is None and is_pinned(tensor))


def _refusal(position: int) -> str:
    """Return the error of the launcher, which names the position in some versions."""
    import triton

    folder = Path(triton.__file__).parent / "backends" / "nvidia"
    files = [folder / name for name in LAUNCHERS if (folder / name).exists()]
    numbered = any("argument (at %d) cannot" in file.read_text() for file in files)
    return MESSAGES["pointer"].format(f" (at {position})" if numbered else "")


def _is_simulated(values: Any) -> bool:
    return any(gpu_of(tensor) for _, tensor in _tensors_in(tuple(values)))


def share_arguments(
    original: Callable, self: Any, args_dev: Any, kwargs: dict
) -> tuple[Any, dict]:
    """Give the interpreter the arguments themselves if some are on a simulated GPU."""
    if _is_simulated((*args_dev, *kwargs.values())):
        return list(args_dev), dict(kwargs)
    return original(self, args_dev, kwargs)


def restore_arguments(
    original: Callable,
    self: Any,
    args_dev: Any,
    args_hst: Any,
    kwargs: dict,
    kwargs_hst: dict,
) -> None:
    """Copy the arguments back, unless they are the program's own."""
    if not _is_simulated((*args_dev, *kwargs.values())):
        original(self, args_dev, args_hst, kwargs, kwargs_hst)


@replaces(torch.library, "wrap_triton")
def wrap_triton(original: Callable, triton_kernel: Any) -> Any:
    """Return a kernel of the interpreter as it is: PyTorch wraps compiled ones alone."""
    if type(triton_kernel).__name__ == "InterpretedFunction":
        return triton_kernel
    return original(triton_kernel)
