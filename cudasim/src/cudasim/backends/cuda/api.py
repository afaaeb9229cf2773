"""`torch.cuda`: what it has and other types of GPU have not."""

import ctypes
import itertools
import logging
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import cuda

from cudasim import config
from cudasim.backends import accelerator, memory
from cudasim.backends.accelerator import exchange_device, nothing, refuse
from cudasim.backends.cuda import graphs, legacy, streams
from cudasim.backends.streams import end_of, now, place_of, set_stream, stream_data
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.waiting import CAPTURING, ERROR, WARN, address
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.timing.sheets import find_sheet

CUDA_VERSION = "13.0"  # of the CUDA builds that PyTorch publishes of 2.11 and later
CUDNN_VERSION = 91002  # 9.10.2, which the CUDA builds of torch 2.9 bring
PLANS = 4096  # that cuFFT keeps (aten/src/ATen/native/cuda/CuFFTPlanCache.h)
WORKSPACE = (
    4096 * 2 + 16 * 8
) * 2**10  # bytes of cuBLAS (aten/src/ATen/cuda/CublasHandlePool.cpp)

_streams = itertools.count(
    0x5C0DB0001000, 0x40
)  # what stands for addresses of new streams
_pieces = itertools.count(
    0x7E0000000000, 2**32
)  # and of raw memory, each below the next


class Status(int):
    success = runtime.SUCCESS


class Runtime:
    """What `torch.cuda.cudart()` returns: the few calls of the runtime that torch has bound."""

    cudaError = Status
    cudaMemGetInfo = staticmethod(memory.free_and_total)
    cudaGetErrorString = staticmethod(runtime.words)

    @staticmethod
    def cudaProfilerStart(*args: Any) -> Status:
        return Status(runtime.SUCCESS)

    cudaProfilerStop = cudaStreamDestroy = cudaProfilerStart

    @staticmethod
    def cudaHostRegister(pointer: int, size: int, flags: int) -> Status:
        session.registered[pointer] = size
        return Status(runtime.SUCCESS)

    @staticmethod
    def cudaHostUnregister(pointer: int) -> Status:
        known = session.registered.pop(pointer, None)
        return Status(runtime.SUCCESS if known else runtime.NOT_REGISTERED)

    @staticmethod
    def cudaStreamCreate(pointer: int) -> Status:
        ctypes.c_uint64.from_address(pointer).value = next(_streams)
        return Status(runtime.SUCCESS)


class CudaProperties:
    """What `torch.cuda.get_device_properties` returns, in bytes. What a generation shares is from
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities."""

    warp_size, max_threads_per_block, regs_per_multiprocessor = 32, 1024, 65536
    shared_memory_per_block = 48 * 2**10
    is_integrated = is_multi_gpu_board = pci_device_id = pci_domain_id = 0
    gcnArchName = ""

    def __init__(self, gpu: GPU) -> None:
        card = gpu.card
        self.name, self.uuid, self.pci_bus_id = gpu.name, gpu.uuid, gpu.number + 1
        self.major, self.minor = card.capability
        self.total_memory, self.L2_cache_size = card.memory, card.cache
        self.multi_processor_count = card.processors
        threads = {(7, 5): 1024, (8, 9): 1536}.get(card.capability, 2048)
        shared = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (9, 0): 227}.get(
            card.capability, 99
        )
        self.max_threads_per_multi_processor = threads
        self.shared_memory_per_block_optin = shared * 2**10
        self.shared_memory_per_multiprocessor = (shared + (self.major >= 8)) * 2**10

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id=0, pci_domain_id=0, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


def host_stats() -> dict[str, Any]:
    """Figures of pinned memory on the host, none of which is counted."""
    amounts = (
        "allocations",
        "allocated_bytes",
        "active_requests",
        "active_bytes",
        "segments",
    )
    figures = dict.fromkeys(("num_host_alloc", "num_host_free"), 0)
    figures |= dict.fromkeys(
        amounts, dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    )
    times = dict.fromkeys(("total", "max", "min", "count", "avg"), 0)
    return figures | dict.fromkeys(("host_alloc_time", "host_free_time"), times)


def sleep(cycles: int) -> None:
    """Let the current stream be busy for `cycles` of a clock of 1 GHz; the host goes on."""
    cycles, place = max(int(cycles), 0), place_of()
    session.current().memory.touch()
    if session.clock is not None:
        session.clock.kernel(*place, "sleep", cycles, fills=False)
    else:
        session.asleep[place] = max(now(), end_of(*place)) + cycles
        session.watch()


def raw_allocate(size: int, stream: int) -> int:
    address = next(_pieces)
    session.raw[address] = Allocation(session.current(), size)
    return address


def raw_delete(address: int) -> None:
    if session.raw.pop(address, None) is None:
        raise RuntimeError(f"invalid device pointer: {address:#x}")


@cache  # once a process, as torch/csrc/cuda/Module.cpp
def warn_of_prototype() -> None:
    words = (
        "Synchronization debug mode is a prototype feature and does not yet detect all"
    )
    warnings.warn(f"{words} synchronizing operations", stacklevel=4)


def set_sync_debug_mode(mode: int) -> None:
    warn_of_prototype()
    if mode not in (0, WARN, ERROR):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    session.sync_debug = mode | session.sync_debug & CAPTURING
    session.watch()


# What PyTorch reads back and what changes nothing here: functions of torch._C, with their values at
# first, which are those of aten/src/ATen/cuda (CublasHandlePool.cpp, tunable/Tunable.h).
SETTINGS = {
    **TABLES["settings"],
    "_get_linalg_preferred_backend": torch._C._LinalgBackend.Default,
    "_get_blas_preferred_backend": torch._C._BlasBackend.Cublas,
    "_cuda_getCublasWorkspaceSize": WORKSPACE,
    "_cuda_getCublasLtWorkspaceSize": WORKSPACE,
}


def settings() -> dict[str, Callable]:
    values: dict[str, Any] = dict(SETTINGS)
    made: dict[str, Callable] = {}

    def keep(name: str, value: Any, *more: Any) -> None:
        values[name] = value

    for get, first in SETTINGS.items():
        made[get] = partial(values.get, get)
        made[get.replace("get", "set", 1).replace("is_enabled", "enable")] = partial(
            keep, get
        )
        if first == WORKSPACE:
            made[get.replace("get", "reset")] = partial(keep, get, first)
    return made


def set_device(index: int) -> None:
    """Make GPU `index` the current one; as with CUDA 12 and later, that makes its context."""
    session.set_current(index)
    session.current().memory.touch()


def can_access_peer(index: int, peer: int) -> bool:
    """Whether copies between two GPUs go directly; else the sheet has no faster way than staged."""
    link = find_sheet(session.card).peer
    return (
        session.gpu(index) is not session.gpu(peer)
        and link["bandwidth"] > link["staged"]
    )


NO_SOURCE = partial(refuse, "cudasim: a simulated GPU runs no CUDA source")
NO_ALLOCATOR = partial(refuse, "cudasim: a simulated GPU has no allocators but its own")
BINDINGS: dict[str, Callable] = {  # what stands for the functions of torch._C
    **dict.fromkeys(
        ("_cuda_changeCurrentAllocator", "_cuda_customAllocator"), NO_ALLOCATOR
    ),
    **dict.fromkeys(TABLES["without_effect"], nothing),
    "_activate_gpu_trace": traces.activate,
    "_cuda_attach_out_of_memory_observer": memory.observe_refusals,
    "_cuda_canDeviceAccessPeer": can_access_peer,
    "_cuda_cudaCachingAllocator_raw_alloc": raw_allocate,
    "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
    "_cuda_emptyCache": memory.empty_cache,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_getArchFlags": lambda: "sm_{}{}".format(*session.machine.card.capability),
    "_cuda_getCompiledVersion": lambda: 13000,
    "_cuda_getCurrentRawStream": lambda index: address(
        session.current_stream(index), index
    ),
    **dict.fromkeys(
        ("_cuda_getCurrentBlasHandle", "_cuda_getCurrentSolverHandle"), lambda: 0
    ),
    "_cuda_getCurrentStream": lambda index: stream_data(
        index, session.current_stream(index)
    ),
    "_cuda_getDevice": lambda: session.current().index,
    "_cuda_getDeviceCount": session.count,
    "_cuda_getMemoryFraction": lambda index: memory.of(index).fraction,
    "_cuda_getStreamFromExternal": lambda pointer, index: stream_data(index, pointer),
    "_cuda_get_conv_benchmark_empty_cache": lambda: True,
    "_cuda_get_sync_debug_mode": lambda: session.sync_debug & ~CAPTURING,
    "_cuda_hasPrimaryContext": lambda index: memory.of(index).context != 0,
    "_cuda_hostMemoryStats": host_stats,
    "_cuda_init": session.use,
    "_cuda_jiterator_compile_and_launch_kernel": NO_SOURCE,
    **dict.fromkeys(
        ("_cuda_exchangeDevice", "_cuda_maybeExchangeDevice"), exchange_device
    ),
    "_cuda_memorySnapshot": memory.snapshot,
    "_cuda_memoryStats": lambda index: memory.stats(memory.of(index)),
    "_cuda_record_memory_history": memory.record_history,
    "_cuda_record_memory_history_legacy": memory.record_history_legacy,
    "_cuda_resetAccumulatedMemoryStats": lambda index: memory.of(index).reset_totals(),
    "_cuda_resetPeakMemoryStats": lambda index: memory.of(index).reset_peaks(),
    "_cuda_setDevice": set_device,
    "_cuda_setMemoryFraction": lambda part, index: memory.of(index).set_fraction(part),
    "_cuda_setStream": set_stream,
    "_cuda_set_sync_debug_mode": set_sync_debug_mode,
    "_cuda_sleep": sleep,
    "_cuda_synchronize": accelerator.wait,
    **dict.fromkeys(
        ("_cuda_tunableop_get_results", "_cuda_tunableop_get_validators"), tuple
    ),
    "_cuda_tunableop_read_file": lambda filename: False,
}


def patch_first_use(patches: Patches) -> None:
    """The first use of a GPU, at which CUDA reads CUDA_VISIBLE_DEVICES."""
    instead = {
        "is_initialized": lambda: session.used,
        "_is_in_bad_fork": lambda: session.forked,
        "_lazy_init": session.use,
        "_lazy_call": lambda action, **when: (
            action()
        ),  # generators can be seeded before
    }
    for owner in (cuda, cuda.memory, cuda.random):
        for name in instead.keys() & vars(owner).keys():
            patches.replace(owner, name, instead[name])
    patches.replace(cuda, "_initialized", session.used)  # as checkpointing reads it
    patches.replace(torch._C, "_cuda_isInBadFork", lambda: session.forked)


def _after_fork() -> None:
    """In a process that was forked: what the other had begun to use is lost."""
    if session.used and not session.type.survives_fork and not config.may_fork():
        session.used, session.forked = False, True
        cuda._initialized = False
        for gpu in session.gpus:
            gpu.lose(partial(runtime.runtime_error, runtime.NOT_INITIALIZED))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def patch_api(patches: Patches) -> None:
    once = cache(CudaProperties)  # the same object for each call
    parts = partial(
        refuse, "cudasim: a simulated GPU's processors cannot be shared out"
    )
    cudnn = torch.backends.cudnn.m  # the module; `torch.backends.cudnn` forwards to it
    for name, function in (BINDINGS | settings()).items():
        patches.replace(torch._C, name, function)
    streams.patch_cuda_streams(patches)
    graphs.patch_graphs(patches)
    patches.replace(cuda, "_cached_device_count", None)
    patches.replace(
        cuda, "_device_count_nvml", lambda: -1
    )  # then `getDeviceCount` is asked
    patches.replace(cuda, "_exchange_device", exchange_device)
    patches.replace(cuda, "_maybe_exchange_device", exchange_device)
    patches.replace(
        cuda, "_get_device_properties", lambda index: once(session.gpu(index))
    )
    patches.replace(cuda, "_cudart", Runtime)
    patches.replace(cuda.nvtx, "_nvtx", legacy.Markers())
    patches.replace(cuda.GreenContext, "create", staticmethod(parts))
    patches.replace(cudnn, "is_available", lambda: True)
    patches.replace(cudnn, "version", lambda: CUDNN_VERSION)
    patches.replace(
        cudnn, "is_acceptable", lambda tensor: False
    )  # the CPU's kernels compute
    patches.replace(torch._C, "_CudaDeviceProperties", CudaProperties)
    patches.replace(torch._C, "_has_cuda", True)
    patches.replace(torch.version, "cuda", CUDA_VERSION)
    patch_first_use(patches)
    patches.forget(cuda)
    legacy.patch_types(patches)
    # It warns that Triton, which comes with builds for CUDA, is not there, and says nothing else.
    patches.replace(logging.getLogger("torch.utils.flop_counter"), "disabled", True)
    plans, limits = vars(torch.backends.cuda.cuFFTPlanCache), {}  # none is ever made
    patches.replace(plans["size"], "getter", lambda index: 0)
    patches.replace(plans["max_size"], "getter", lambda index: limits.get(index, PLANS))
    patches.replace(plans["max_size"], "setter", limits.__setitem__)
    patches.replace(torch, "_cufft_clear_plan_cache", nothing)
    caches = torch.backends.cuda.cuFFTPlanCacheManager()
    patches.replace(torch.backends.cuda, "cufft_plan_cache", caches)
