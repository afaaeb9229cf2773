"""`torch.cuda`: what it has and other types of GPU have not."""

import ctypes
import functools
import itertools
import logging
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import torch

from cudasim.backends.accelerator import patch_module, refuse
from cudasim.backends.cuda.graphs import patch_graphs
from cudasim.backends.cuda.legacy import LegacyType, Markers, patch_default_type
from cudasim.backends.cuda.properties import CudaProperties
from cudasim.backends.cuda.streams import patch_cuda_streams
from cudasim.backends.memory import (
    free_and_total,
    memory,
    observe_refusals,
    record_history,
    record_history_legacy,
)
from cudasim.backends.streams import current_id
from cudasim.device.gpu import Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.waiting import CAPTURING, ERROR, WARN, end_of_sleep
from cudasim.patching import Patches
from cudasim.session import session

CUDA_VERSION = "13.0"  # of the CUDA builds that PyTorch publishes of 2.11 and later
CUDNN_VERSION = 91002  # 9.10.2, which the CUDA builds of torch 2.9 bring
NOTHING = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


_streams = itertools.count(0x5C0DB0001000, 0x40)  # what stands for addresses of new streams


class Status(int):
    """A result of CUDA's runtime, by its number."""


Status.success = Status(runtime.SUCCESS)


class Runtime:
    """What `torch.cuda.cudart()` returns: the few calls of the runtime that torch has bound."""

    cudaError = Status

    @staticmethod
    def cudaMemGetInfo(index: int) -> tuple[int, int]:
        """(free, total) bytes of GPU `index`, as the driver counts them."""
        return free_and_total(index)

    @staticmethod
    def cudaGetErrorString(status: int) -> str:
        """The words for a result."""
        return runtime.words(status)

    @staticmethod
    def _succeed(*args: Any) -> Status:
        return Status.success

    @staticmethod
    def cudaHostRegister(pointer: int, size: int, flags: int) -> Status:
        """Pin `size` bytes of the host's memory, from `pointer` on."""
        session.registered[pointer] = size
        return Status.success

    @staticmethod
    def cudaHostUnregister(pointer: int) -> Status:
        """They are pinned no more."""
        known = session.registered.pop(pointer, None)
        return Status.success if known else Status(runtime.NOT_REGISTERED)

    @staticmethod
    def cudaStreamCreate(pointer: int) -> Status:
        """Write what stands for the address of a new stream to the eight bytes at `pointer`."""
        ctypes.c_uint64.from_address(pointer).value = next(_streams)
        return Status.success

    cudaProfilerStart = cudaProfilerStop = cudaStreamDestroy = _succeed


def host_stats() -> dict[str, Any]:
    """Figures of pinned memory on the host, none of which is counted."""
    names = ("allocations", "allocated_bytes", "active_requests", "active_bytes", "segments")
    counts = ("num_host_alloc", "num_host_free")
    times = ("host_alloc_time", "host_free_time")
    spent = {"total": 0, "max": 0, "min": 0, "count": 0, "avg": 0}
    return {
        **{name: dict(NOTHING) for name in names},
        **{name: 0 for name in counts},
        **{name: dict(spent) for name in times},
    }


def sleep(cycles: int) -> None:
    """Let the current stream be busy for `cycles` of a clock of 1 GHz; the host goes on.

    As CUDA's kernel does, it ends at once where they are less than none. Without a virtual clock
    it is the machine's time that passes.
    """
    cycles, gpu = max(int(cycles), 0), session.current()
    gpu.memory.touch()
    stream = gpu.index, current_id(gpu.index)
    if session.clock is not None:
        session.clock.kernel(*stream, "sleep", cycles, fills=False)
        return
    session.asleep[stream] = max(time.perf_counter_ns(), end_of_sleep(*stream)) + cycles
    session.watch()


def raw_allocate(size: int, stream: int) -> int:
    """Count `size` bytes on the current GPU as taken; returns what stands for an address."""
    address = 0x7E0000000000 + (uuid.uuid4().int & 0xFFFFFFFF) * 512
    session.raw[address] = Allocation(session.current(), size)
    return address


def raw_delete(address: int) -> None:
    """Give back what `raw_allocate` took. Raises RuntimeError for another address."""
    if session.raw.pop(address, None) is None:
        raise RuntimeError(f"invalid device pointer: {address:#x}")


PROTOTYPE = (  # torch/csrc/cuda/Module.cpp says so once
    "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing "
    "operations"
)
_warned = False  # whether it has been said in this process


def set_sync_debug_mode(mode: int) -> None:
    """Warn of operations that wait for a GPU (1), refuse them (2), or say nothing (0).

    Raises RuntimeError for another number.
    """
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(PROTOTYPE, stacklevel=3)
    if mode not in (0, WARN, ERROR):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    session.sync_debug = mode | session.sync_debug & CAPTURING
    session.watch()


class Switches:
    """Settings that torch reads back and that change nothing here."""

    caching = True
    benchmark_limit = 10


def setting(get: str, set: str, value: Any) -> dict[str, Callable]:
    """The two functions of `torch._C` that read and change a setting, which changes nothing."""
    held = [value]
    return {get: lambda: held[0], set: lambda *given: held.__setitem__(0, given[0])}


PLANS = 4096  # that cuFFT keeps (aten/src/ATen/native/cuda/CuFFTPlanCache.h)
PREFERRED = "_get_{0}_preferred_backend _set_{0}_preferred_backend"

# Bytes of cuBLAS's (aten/src/ATen/cuda/CublasHandlePool.cpp).
WORKSPACE = (4096 * 2 + 16 * 8) * 2**10


def library_settings() -> dict[str, Callable]:
    """What reads and changes settings of cuBLAS and TunableOp, none of which runs here.

    The values at first are those of aten/src/ATen/cuda (CublasHandlePool.cpp, tunable/Tunable.h).
    """
    tunable = "_cuda_tunableop_"
    made = {
        **setting(
            "_cuda_get_conv_benchmark_empty_cache", "_cudnn_set_conv_benchmark_empty_cache", True
        ),
        **setting(f"{tunable}is_enabled", f"{tunable}enable", False),
        **setting(f"{tunable}tuning_is_enabled", f"{tunable}tuning_enable", True),
        **setting("_cuda_record_untuned_is_enabled", "_cuda_record_untuned_enable", False),
        **setting(*PREFERRED.format("linalg").split(), torch._C._LinalgBackend.Default),
        **setting(*PREFERRED.format("blas").split(), torch._C._BlasBackend.Cublas),
        f"{tunable}get_results": tuple,
        f"{tunable}get_validators": tuple,
        f"{tunable}read_file": lambda filename: False,
        f"{tunable}set_numerical_check_tolerances": lambda *given: None,
    }
    for name, value in (
        ("max_tuning_duration", 30),
        ("max_tuning_iterations", 100),
        ("rotating_buffer_size", -1),
        ("filename", ""),
    ):
        made |= setting(f"{tunable}get_{name}", f"{tunable}set_{name}", value)
    for name in ("CublasWorkspaceSize", "CublasLtWorkspaceSize"):
        get, change = f"_cuda_get{name}", f"_cuda_set{name}"
        made |= setting(get, change, WORKSPACE)
        made[f"_cuda_reset{name}"] = functools.partial(made[change], WORKSPACE)
    return made


def set_device(index: int) -> None:
    """Make GPU `index` the current one; as with CUDA 12 and later, that makes its context."""
    session.set_current(index)
    session.current().memory.touch()


def has_context(index: int) -> bool:
    """Whether this process has a context on GPU `index`."""
    return memory(index).context != 0


def bindings(switches: Switches) -> dict[str, Callable]:
    """What stands for the functions of `torch._C`, by name."""
    custom = "cudasim: a simulated GPU has no allocators but its own"
    return {
        **library_settings(),
        "_cuda_ipc_collect": lambda: None,
        "_cuda_setDevice": set_device,
        "_cuda_hasPrimaryContext": has_context,
        "_cuda_clearCublasWorkspaces": lambda: None,
        "_cuda_getCompiledVersion": lambda: 13000,
        "_activate_gpu_trace": traces.activate,
        "_cuda_getArchFlags": lambda: " ".join(
            sorted({"sm_{}{}".format(*gpu.card.capability) for gpu in session.gpus})
        ),
        "_cuda_sleep": sleep,
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_getCurrentSolverHandle": lambda: 0,
        "_cuda_get_sync_debug_mode": lambda: session.sync_debug & ~CAPTURING,
        "_cuda_set_sync_debug_mode": set_sync_debug_mode,
        "_cuda_get_cudnn_benchmark_limit": lambda: switches.benchmark_limit,
        "_cuda_set_cudnn_benchmark_limit": lambda limit: setattr(
            switches, "benchmark_limit", limit
        ),
        "_cuda_record_memory_history": record_history,
        "_cuda_record_memory_history_legacy": record_history_legacy,
        "_cuda_attach_out_of_memory_observer": observe_refusals,
        "_cuda_hostMemoryStats": host_stats,
        "_cuda_resetPeakHostMemoryStats": lambda: None,
        "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_raw_alloc": raw_allocate,
        "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
        "_cuda_cudaCachingAllocator_enable": lambda on: setattr(switches, "caching", on),
        "_cuda_cudaCachingAllocator_is_enabled": lambda: switches.caching,
        "_cuda_changeCurrentAllocator": refuse(custom),
        "_cuda_customAllocator": refuse(custom),
        "_cuda_jiterator_compile_and_launch_kernel": refuse(
            "cudasim: a simulated GPU runs no CUDA source"
        ),
    }


def _miss_no_triton(patches: Patches) -> None:
    """Keep PyTorch from warning that Triton, which comes with builds for CUDA, is not there."""
    counting = logging.getLogger("torch.utils.flop_counter")

    def has(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("triton not found")

    counting.addFilter(has)
    patches.finally_do(lambda: counting.removeFilter(has))


def _patch_plan_caches(patches: Patches) -> None:
    """Make `torch.backends.cuda.cufft_plan_cache` that of GPUs that need no plans."""
    cuda, most = torch.backends.cuda, {}
    size, max_size = (vars(cuda.cuFFTPlanCache)[name] for name in ("size", "max_size"))
    patches.replace(size, "getter", lambda index: 0)
    patches.replace(max_size, "getter", lambda index: most.get(index, PLANS))
    patches.replace(max_size, "setter", most.__setitem__)
    patches.replace(torch, "_cufft_clear_plan_cache", lambda index: None)
    patches.replace(cuda, "cufft_plan_cache", cuda.cuFFTPlanCacheManager())


def patch_api(patches: Patches) -> None:
    """Make `torch.cuda` report the simulated GPUs."""
    patch_module(patches, CudaProperties)
    patch_cuda_streams(patches)
    patch_graphs(patches)
    for name, function in bindings(Switches()).items():
        patches.replace(torch._C, name, function)
    cuda = torch.cuda
    patches.replace(torch.version, "cuda", CUDA_VERSION)
    _miss_no_triton(patches)
    patches.replace(cuda, "_cudart", Runtime)
    patches.replace(torch._C, "_CudaDeviceProperties", CudaProperties)
    patches.replace(cuda.nvtx, "_nvtx", Markers())
    parts = refuse("cudasim: a simulated GPU's processors cannot be shared out")
    patches.replace(cuda.GreenContext, "create", staticmethod(parts))
    for name in cuda.__all__:
        if name.endswith("Tensor"):
            own = {"__module__": "torch.cuda"}
            patches.replace(cuda, name, LegacyType(name, (), own))
    patch_default_type(patches)
    _patch_plan_caches(patches)
    cudnn = torch.backends.cudnn.m  # the module; `torch.backends.cudnn` forwards to it
    patches.replace(cudnn, "is_available", lambda: True)
    patches.replace(cudnn, "version", lambda: CUDNN_VERSION)
    patches.replace(cudnn, "is_acceptable", lambda tensor: False)  # the CPU's kernels compute
