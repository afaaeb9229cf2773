"""`torch.cuda`: what it has and other types of GPU have not."""

import ctypes
import functools
import itertools
import logging
import operator
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import torch

from cudasim.backends.accelerator import (
    can_access_peer,
    exchange_device,
    is_capturing,
    refuse,
    wait,
)
from cudasim.backends.cuda.graphs import patch_graphs
from cudasim.backends.cuda.legacy import LegacyType, Markers, patch_default_type
from cudasim.backends.cuda.properties import CudaProperties
from cudasim.backends.cuda.streams import patch_cuda_streams
from cudasim.backends.first_use import begin, patch_first_use
from cudasim.backends.memory import (
    empty_cache,
    free_and_total,
    memory,
    observe_refusals,
    record_history,
    record_history_legacy,
    snapshot,
    stats,
)
from cudasim.backends.streams import set_current, stream_data
from cudasim.device.gpu import Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.waiting import CAPTURING, ERROR, WARN, address, end_of_sleep
from cudasim.patching import Patches
from cudasim.session import session

CUDA_VERSION = "13.0"  # of the CUDA builds that PyTorch publishes of 2.11 and later
CUDNN_VERSION = 91002  # 9.10.2, which the CUDA builds of torch 2.9 bring


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
    times = ("host_alloc_time", "host_free_time")
    return {
        **{name: dict.fromkeys(("current", "peak", "allocated", "freed"), 0) for name in names},
        **{name: dict.fromkeys(("total", "max", "min", "count", "avg"), 0) for name in times},
        **dict.fromkeys(("num_host_alloc", "num_host_free"), 0),
    }


def sleep(cycles: int) -> None:
    """Let the current stream be busy for `cycles` of a clock of 1 GHz; the host goes on.

    As CUDA's kernel does, it ends at once where they are less than none. Without a virtual clock
    it is the machine's time that passes.
    """
    cycles, gpu = max(int(cycles), 0), session.current()
    gpu.memory.touch()
    stream = gpu.index, session.current_stream(gpu.index)
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


PLANS = 4096  # that cuFFT keeps (aten/src/ATen/native/cuda/CuFFTPlanCache.h)

# Bytes of cuBLAS's (aten/src/ATen/cuda/CublasHandlePool.cpp).
WORKSPACE = (4096 * 2 + 16 * 8) * 2**10


# Settings that PyTorch reads back and that change nothing here: (functions of torch._C, value at
# first). The values are those of aten/src/ATen/cuda (CublasHandlePool.cpp, tunable/Tunable.h).
SETTINGS = [
    ("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit", 10),
    ("_cuda_cudaCachingAllocator_is_enabled", "_cuda_cudaCachingAllocator_enable", True),
    ("_cuda_get_conv_benchmark_empty_cache", "_cudnn_set_conv_benchmark_empty_cache", True),
    ("_cuda_tunableop_is_enabled", "_cuda_tunableop_enable", False),
    ("_cuda_tunableop_tuning_is_enabled", "_cuda_tunableop_tuning_enable", True),
    ("_cuda_record_untuned_is_enabled", "_cuda_record_untuned_enable", False),
    *(
        (f"_cuda_tunableop_get_{name}", f"_cuda_tunableop_set_{name}", value)
        for name, value in (
            ("max_tuning_duration", 30),
            ("max_tuning_iterations", 100),
            ("rotating_buffer_size", -1),
            ("filename", ""),
        )
    ),
    (
        "_get_linalg_preferred_backend",
        "_set_linalg_preferred_backend",
        torch._C._LinalgBackend.Default,
    ),
    ("_get_blas_preferred_backend", "_set_blas_preferred_backend", torch._C._BlasBackend.Cublas),
    ("_cuda_getCublasWorkspaceSize", "_cuda_setCublasWorkspaceSize", WORKSPACE),
    ("_cuda_getCublasLtWorkspaceSize", "_cuda_setCublasLtWorkspaceSize", WORKSPACE),
]


def settings() -> dict[str, Callable]:
    """The functions of `torch._C` that read and change SETTINGS."""
    made: dict[str, Callable] = {}
    for get, change, value in SETTINGS:
        held = [value]
        made[get] = functools.partial(operator.getitem, held, 0)
        made[change] = functools.partial(operator.setitem, held, 0)
    for name in ("CublasWorkspaceSize", "CublasLtWorkspaceSize"):
        made[f"_cuda_reset{name}"] = functools.partial(made[f"_cuda_set{name}"], WORKSPACE)
    return made


def set_device(index: int) -> None:
    """Make GPU `index` the current one; as with CUDA 12 and later, that makes its context."""
    session.set_current(index)
    session.current().memory.touch()


CUSTOM = refuse("cudasim: a simulated GPU has no allocators but its own")
BINDINGS: dict[str, Callable] = {  # what stands for the functions of torch._C
    "_activate_gpu_trace": traces.activate,
    "_cuda_attach_out_of_memory_observer": observe_refusals,
    "_cuda_canDeviceAccessPeer": can_access_peer,
    "_cuda_changeCurrentAllocator": CUSTOM,
    "_cuda_clearCublasWorkspaces": lambda: None,
    "_cuda_cudaCachingAllocator_raw_alloc": raw_allocate,
    "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
    "_cuda_customAllocator": CUSTOM,
    "_cuda_emptyCache": empty_cache,
    "_cuda_exchangeDevice": exchange_device,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_getArchFlags": lambda: " ".join(
        sorted({"sm_{}{}".format(*gpu.card.capability) for gpu in session.gpus})
    ),
    "_cuda_getCompiledVersion": lambda: 13000,
    "_cuda_getCurrentBlasHandle": lambda: 0,
    "_cuda_getCurrentRawStream": lambda index: address(session.current_stream(index), index),
    "_cuda_getCurrentSolverHandle": lambda: 0,
    "_cuda_getCurrentStream": lambda index: stream_data(index, session.current_stream(index)),
    "_cuda_getDevice": lambda: session.current().index,
    "_cuda_getDeviceCount": session.count,
    "_cuda_getMemoryFraction": lambda index: memory(index).fraction,
    "_cuda_getStreamFromExternal": lambda pointer, index: stream_data(index, pointer),
    "_cuda_get_sync_debug_mode": lambda: session.sync_debug & ~CAPTURING,
    "_cuda_hasPrimaryContext": lambda index: memory(index).context != 0,
    "_cuda_hostMemoryStats": host_stats,
    "_cuda_init": begin,
    "_cuda_ipc_collect": lambda: None,
    "_cuda_isCurrentStreamCapturing": is_capturing,
    "_cuda_jiterator_compile_and_launch_kernel": refuse(
        "cudasim: a simulated GPU runs no CUDA source"
    ),
    "_cuda_maybeExchangeDevice": exchange_device,
    "_cuda_memorySnapshot": snapshot,
    "_cuda_memoryStats": lambda index: stats(memory(index)),
    "_cuda_record_memory_history": record_history,
    "_cuda_record_memory_history_legacy": record_history_legacy,
    "_cuda_resetAccumulatedHostMemoryStats": lambda: None,
    "_cuda_resetAccumulatedMemoryStats": lambda index: memory(index).reset_totals(),
    "_cuda_resetPeakHostMemoryStats": lambda: None,
    "_cuda_resetPeakMemoryStats": lambda index: memory(index).reset_peaks(),
    "_cuda_setDevice": set_device,
    "_cuda_setMemoryFraction": lambda part, index: memory(index).set_fraction(part),
    "_cuda_setStream": lambda stream_id, device_index, device_type: set_current(
        stream_id, device_index
    ),
    "_cuda_set_sync_debug_mode": set_sync_debug_mode,
    "_cuda_sleep": sleep,
    "_cuda_synchronize": wait,
    "_cuda_tunableop_get_results": tuple,
    "_cuda_tunableop_get_validators": tuple,
    "_cuda_tunableop_read_file": lambda filename: False,
    "_cuda_tunableop_set_numerical_check_tolerances": lambda *given: None,
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
    for name, function in (BINDINGS | settings()).items():
        patches.replace(torch._C, name, function)
    patch_cuda_streams(patches)
    patch_graphs(patches)
    cuda = torch.cuda
    once = functools.cache(CudaProperties)  # the same object for each call
    for name, value in {
        "_cached_device_count": None,
        "_device_count_nvml": lambda: -1,  # then `getDeviceCount` is asked
        "_exchange_device": exchange_device,
        "_maybe_exchange_device": exchange_device,
        "_get_device_properties": lambda index: once(session.gpu(index)),
        "_cudart": Runtime,
    }.items():
        patches.replace(cuda, name, value)
    patch_first_use(patches)
    patches.forget(cuda)
    patches.replace(torch._C, "_has_cuda", True)
    patches.replace(torch.version, "cuda", CUDA_VERSION)
    _miss_no_triton(patches)
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
