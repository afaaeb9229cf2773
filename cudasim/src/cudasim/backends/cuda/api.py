"""`torch.cuda`: what it has and other types of GPU have not."""

import ctypes
import itertools
import logging
import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NoReturn

import torch
from torch import cuda

from cudasim import config
from cudasim.backends import accelerator, memory
from cudasim.backends.accelerator import do_nothing, exchange_device, refuse
from cudasim.backends.cuda import graphs, legacy, streams
from cudasim.backends.cuda.nvidia_smi import bus_number
from cudasim.backends.streams import key_of, set_stream, stream_data
from cudasim.device.gpu import GPU, Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch import traces
from cudasim.dispatch.host_memory import host_memory
from cudasim.dispatch.times import end_of, now
from cudasim.dispatch.waiting import CAPTURING, ERROR, WARN, address
from cudasim.importing import after_import
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.timing.sheets import find_sheet
from cudasim.torch_private import devices as private
from cudasim.words import WORDS

CUDA_VERSION = "13.0"  # of the CUDA builds that PyTorch publishes of 2.11 and later
COMPILED_VERSION = 13000  # the same as CUDA counts
CUDNN_VERSION = 91002  # 9.10.2, which the CUDA builds of torch 2.9 bring
PLANS = 4096  # that cuFFT keeps (aten/src/ATen/native/cuda/CuFFTPlanCache.h)
KIB = 2**10
KHZ = 1000  # in a MHz
WORKSPACE = (4096 * 2 + 16 * 8) * KIB  # of cuBLAS (ATen/cuda/CublasHandlePool.cpp)

# What a generation of cards shares, by capability, in threads and in KiB:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
USUAL_THREADS = 2048
THREADS = {(7, 5): 1024, (8, 9): 1536}
USUAL_SHARED_MEMORY = 99
SHARED_MEMORY = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (9, 0): 227}

# What stands for the addresses of streams that the runtime makes, and of raw memory, each
# piece of which is below the next.
_stream_addresses = itertools.count(0x5C0DB0001000, 0x40)
_raw_addresses = itertools.count(0x7E0000000000, 2**32)


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

    cudaProfilerStop = cudaProfilerStart
    cudaStreamDestroy = cudaProfilerStart

    @staticmethod
    def cudaHostRegister(pointer: int, size: int, flags: int) -> Status:
        session.registered_sizes[pointer] = size
        return Status(runtime.SUCCESS)

    @staticmethod
    def cudaHostUnregister(pointer: int) -> Status:
        size = session.registered_sizes.pop(pointer, None)
        return Status(runtime.SUCCESS if size else runtime.NOT_REGISTERED)

    @staticmethod
    def cudaStreamCreate(pointer: int) -> Status:
        ctypes.c_uint64.from_address(pointer).value = next(_stream_addresses)
        return Status(runtime.SUCCESS)


class CudaProperties:
    """What `torch.cuda.get_device_properties` returns; memory is in bytes, clocks in kHz.

    Its fields are those of `_CudaDeviceProperties` in torch/csrc/cuda/Module.cpp, the same
    from 2.11 to 2.14. They can only be read, and errors name the class as pybind11 does.
    """

    warp_size = 32
    max_threads_per_block = 1024
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 48 * KIB
    is_integrated = 0
    is_multi_gpu_board = 0
    pci_device_id = 0
    pci_domain_id = 0

    def __init__(self, gpu: GPU) -> None:
        card = gpu.card
        major, minor = card.capability
        shared = SHARED_MEMORY.get(card.capability, USUAL_SHARED_MEMORY)
        reserved = 1 if major >= 8 else 0  # KiB that a block cannot have
        fields = vars(self)
        fields.update(
            name=gpu.name,
            gcnArchName=gpu.name,  # a field of HIP, which CUDA's builds fill so
            uuid=gpu.uuid,
            pci_bus_id=bus_number(gpu.number),
            major=major,
            minor=minor,
            total_memory=card.memory,
            L2_cache_size=card.cache,
            multi_processor_count=card.processors,
            max_threads_per_multi_processor=THREADS.get(card.capability, USUAL_THREADS),
            shared_memory_per_block_optin=shared * KIB,
            shared_memory_per_multiprocessor=(shared + reserved) * KIB,
        )
        if card.clock:  # a card of one's own may lack its clocks
            fields.update(
                clock_rate=card.clock * KHZ,
                memory_clock_rate=card.memory_clock * KHZ,
                memory_bus_width=card.bus_width,
            )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"'torch._C._CudaDeviceProperties' object has no attribute '{name}'",
            name=name,
            obj=self,
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        getattr(self, name)  # raises for a name that is no field
        raise AttributeError("property of '_CudaDeviceProperties' object has no setter")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id=0, pci_domain_id=0, "
            f"L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


CudaProperties.__name__ = CudaProperties.__qualname__ = "_CudaDeviceProperties"
CudaProperties.__module__ = "torch._C"


def sleep(cycles: int) -> None:
    """Let the current stream be busy for `cycles` of the card; the host goes on.

    The kernel counts the clock of a multiprocessor (`spin_kernel` in
    ATen/cuda/Sleep.cu). Without modelled time it is one of 1 GHz.
    """
    cycles = max(int(cycles), 0)
    key = key_of()
    gpu = session.current()
    gpu.check()
    gpu.memory.touch()
    if session.clock is not None:
        megahertz = session.machine.card.clock or 1000
        duration = cycles * 1000 // megahertz
        session.clock.kernel(*key, "sleep", duration, fills=False)
    else:
        session.asleep[key] = max(now(), end_of(*key)) + cycles
        session.update_watching()


def raw_allocate(size: int, stream: int) -> int:
    address = next(_raw_addresses)
    session.raw_allocations[address] = Allocation(session.current(), size)
    return address


def raw_delete(address: int) -> None:
    if session.raw_allocations.pop(address, None) is None:
        raise RuntimeError(f"invalid device pointer: {address:#x}")


@cache  # once a process, as torch/csrc/cuda/Module.cpp
def warn_of_prototype() -> None:
    warnings.warn(
        "Synchronization debug mode is a prototype feature and does not yet detect all "
        "synchronizing operations",
        stacklevel=4,
    )


def set_sync_debug_mode(mode: int) -> None:
    warn_of_prototype()
    if mode not in (0, WARN, ERROR):
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    session.sync_debug = mode | session.sync_debug & CAPTURING
    session.update_watching()


def set_device(index: int) -> None:
    """Make GPU `index` the current one; as with CUDA 12 and later, that makes its context."""
    session.set_current(index)
    session.current().memory.touch()


def can_access_peer(index: int, peer: int) -> bool:
    """Tell whether copies between two GPUs go directly.

    They do if that is faster, by the card's sheet, than by way of the host.
    """
    link = find_sheet(session.card).peer
    if session.gpu(index) is session.gpu(peer):
        return False
    return link["bandwidth"] > link["staged"]


def arch_flags() -> str:
    major, minor = session.machine.card.capability
    return f"sm_{major}{minor}"


def raw_stream(index: int) -> int:
    return address(session.current_stream(index), index)


def current_stream(index: int) -> tuple[int, int, int]:
    return stream_data(index, session.current_stream(index))


NO_SOURCE = partial(refuse, "cudasim: a simulated GPU runs no CUDA source")
NO_ALLOCATOR = partial(refuse, "cudasim: a simulated GPU has no allocators but its own")


def change_allocator(allocator: Any) -> None:
    """Refuse another allocator: as CUDA does once it has begun, and in our words before.

    See `changeCurrentAllocator` in torch/csrc/cuda/CUDAPluggableAllocator.cpp.
    """
    if session.used:
        raise RuntimeError(WORDS["allocator"]["begun"])
    NO_ALLOCATOR()


class NativeAllocator:
    """What `torch.cuda.memory._get_current_allocator` wraps."""


FUNCTIONS: dict[str, Callable] = {
    # Devices, and what they wait for.
    "init": session.use,
    "isInBadFork": lambda: session.forked,
    "hasPrimaryContext": lambda index: memory.of(index).context != 0,
    "synchronize": accelerator.wait,
    "sleep": sleep,
    "getDevice": accelerator.current_index,
    "setDevice": set_device,
    "exchangeDevice": exchange_device,
    "maybeExchangeDevice": exchange_device,
    "getDeviceCount": session.count,
    "canDeviceAccessPeer": can_access_peer,
    "getArchFlags": arch_flags,
    "getCompiledVersion": lambda: COMPILED_VERSION,
    "getCurrentStream": current_stream,
    "getCurrentRawStream": raw_stream,
    "getStreamFromExternal": lambda pointer, index: stream_data(index, pointer),
    "setStream": set_stream,
    "get_sync_debug_mode": lambda: session.sync_debug & ~CAPTURING,
    "set_sync_debug_mode": set_sync_debug_mode,
    # Memory.
    "emptyCache": memory.empty_cache,
    "memorySnapshot": memory.snapshot,
    "memoryStats": lambda index: memory.stats(memory.of(index)),
    "hostMemoryStats": lambda: host_memory().stats(),
    "getAllocatorBackend": lambda: "native",
    "getMemoryFraction": lambda index: memory.of(index).fraction,
    "setMemoryFraction": lambda part, index: memory.of(index).set_fraction(part),
    "resetPeakMemoryStats": lambda index: memory.of(index).reset_peaks(),
    "resetPeakHostMemoryStats": lambda: host_memory().reset_peaks(),
    "resetAccumulatedMemoryStats": lambda index: memory.of(index).reset_totals(),
    "resetAccumulatedHostMemoryStats": lambda: host_memory().reset_totals(),
    "record_memory_history": memory.record_history,
    "record_memory_history_legacy": memory.record_history_legacy,
    "isHistoryEnabled": memory.is_history_enabled,
    "allocationTraceback": memory.traceback_of,
    "getMemoryMetadata": memory.metadata,
    "setMemoryMetadata": memory.set_metadata,
    "memoryMetadataSupported": lambda: True,
    "annotateMemory": memory.annotate,
    "attach_out_of_memory_observer": memory.observe_refusals,
    "cudaCachingAllocator_raw_alloc": raw_allocate,
    "cudaCachingAllocator_raw_delete": raw_delete,
    "changeCurrentAllocator": change_allocator,
    "customAllocator": NO_ALLOCATOR,
    "getAllocator": NativeAllocator,
    # As the handles below.
    "cudaHostAllocator": lambda: id(host_memory()),
    "ipc_collect": do_nothing,
    # Libraries.
    # Of no use but to be told from 0, which would be no handle.
    "getCurrentBlasHandle": lambda: id(session.current()),
    "getCurrentSolverHandle": lambda: id(session.current()),
    "clearCublasWorkspaces": do_nothing,
    "get_conv_benchmark_empty_cache": lambda: True,
    "jiterator_compile_and_launch_kernel": NO_SOURCE,
    "tunableop_get_results": tuple,
    "tunableop_get_validators": tuple,
    "tunableop_read_file": lambda filename: False,
    "tunableop_set_numerical_check_tolerances": do_nothing,
}

# What PyTorch reads back, and what changes nothing here: what reads it, what sets it, and
# the value at first, which is that of aten/src/ATen/cuda (tunable/Tunable.h).
CUDA_SETTINGS = (
    ("get_cudnn_benchmark_limit", "set_cudnn_benchmark_limit", 10),
    ("cudaCachingAllocator_is_enabled", "cudaCachingAllocator_enable", True),
    ("tunableop_is_enabled", "tunableop_enable", False),
    ("tunableop_tuning_is_enabled", "tunableop_tuning_enable", True),
    ("tunableop_get_max_tuning_duration", "tunableop_set_max_tuning_duration", 30),
    ("tunableop_get_max_tuning_iterations", "tunableop_set_max_tuning_iterations", 100),
    (
        "tunableop_get_cublaslt_requested_algo_count",
        "tunableop_set_cublaslt_requested_algo_count",
        8,
    ),
    ("tunableop_get_rotating_buffer_size", "tunableop_set_rotating_buffer_size", -1),
    ("tunableop_get_filename", "tunableop_set_filename", ""),
    ("record_untuned_is_enabled", "record_untuned_enable", False),
    ("getCublasWorkspaceSize", "setCublasWorkspaceSize", WORKSPACE),
    ("getCublasLtWorkspaceSize", "setCublasLtWorkspaceSize", WORKSPACE),
)
LINEAR_ALGEBRA_SETTINGS = (
    (
        "get_linalg_preferred_backend",
        "set_linalg_preferred_backend",
        private.LinearAlgebraBackend.Default,
    ),
    (
        "get_blas_preferred_backend",
        "set_blas_preferred_backend",
        private.BlasBackend.Cublas,
    ),
)


class Setting:
    """A value that PyTorch reads back."""

    def __init__(self, first: Any) -> None:
        self._first = first
        self._value = first

    def read(self) -> Any:
        return self._value

    def change(self, value: Any, *unused: Any) -> None:
        self._value = value

    def reset(self, *unused: Any) -> None:
        self._value = self._first


def functions_of_settings(rows: tuple) -> dict[str, Callable]:
    functions: dict[str, Callable] = {}
    for reads, changes, first in rows:
        setting = Setting(first)
        functions[reads] = setting.read
        functions[changes] = setting.change
        if first == WORKSPACE:  # these sizes can be reset
            functions[reads.replace("get", "reset", 1)] = setting.reset
    return functions


def patch_first_use(patches: Patches) -> None:
    """Patch the first use of a GPU, at which CUDA reads CUDA_VISIBLE_DEVICES."""
    for owner in (cuda, cuda.memory, cuda.random):
        patches.replace(owner, "is_initialized", lambda: session.used)
    for attribute in private.LAZY_INIT:
        patches.replace(*attribute, session.use)
    for attribute in private.LAZY_CALL:
        patches.replace(*attribute, call_now)
    patches.replace(*private.IS_IN_BAD_FORK, lambda: session.forked)
    patches.replace(*private.IS_INITIALIZED, session.used)  # as checkpointing reads it


def call_now(action: Callable[[], Any], **when: Any) -> None:
    """Stand for what waits for the first use: our generators can be seeded before."""
    action()


def _after_fork() -> None:
    """Lose, in a process that was forked, what the other had begun to use."""
    if not session.used or session.type.survives_fork or config.may_fork():
        return
    session.used = False
    session.forked = True
    owner, name = private.IS_INITIALIZED
    setattr(owner, name, False)
    for gpu in session.gpus:
        gpu.lose(partial(runtime.runtime_error, runtime.NOT_INITIALIZED))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def patch_api(patches: Patches) -> None:
    _patch_bindings(patches)
    streams.patch_cuda_streams(patches)
    graphs.patch_graphs(patches)
    _patch_devices(patches)
    patch_first_use(patches)
    patches.forget(cuda)
    legacy.patch_types(patches)
    _patch_libraries(patches)


def _patch_bindings(patches: Patches) -> None:
    patches.bind(private.CUDA, FUNCTIONS | functions_of_settings(CUDA_SETTINGS))
    functions = functions_of_settings(LINEAR_ALGEBRA_SETTINGS)
    functions["cudnn_set_conv_benchmark_empty_cache"] = do_nothing
    patches.bind(private.LIBRARIES, functions)
    patches.replace(*private.ACTIVATE_GPU_TRACE, traces.activate)
    patches.replace(*private.HAS_CUDA, True)
    patches.replace(*private.DEVICE_PROPERTIES, CudaProperties)
    patches.replace(torch.version, "cuda", CUDA_VERSION)


def _patch_devices(patches: Patches) -> None:
    properties_of = cache(CudaProperties)  # the same object for each call

    def get_properties(index: int | None) -> CudaProperties:
        return properties_of(session.gpu(index))

    # Without a count from the driver's library, that of `getDeviceCount` is taken.
    patches.replace(*private.CACHED_DEVICE_COUNT, None)
    patches.replace(*private.COUNT_BY_NVML, lambda: -1)
    patches.replace(*private.EXCHANGE_DEVICE, exchange_device)
    # Two functions, because the compiler knows functions by identity.
    patches.replace(
        *private.MAYBE_EXCHANGE_DEVICE, lambda index: exchange_device(index)
    )
    patches.replace(*private.GET_DEVICE_PROPERTIES, get_properties)
    give_up = after_import("torch._dynamo", partial(_fold_properties, patches))
    patches.finally_do(give_up)
    patches.replace(*private.CUDA_RUNTIME, Runtime)
    patches.replace(*private.NVTX, legacy.Markers())

    message = "cudasim: a simulated GPU's processors cannot be shared out"
    for name in ("create", "max_workqueue_concurrency"):  # the latter since 2.13
        no_parts = staticmethod(partial(refuse, message))
        patches.replace(cuda.GreenContext, name, no_parts)


def _fold_properties(patches: Patches) -> None:
    """Let the compiler take the properties of a GPU for constants, as it takes CUDA's."""
    from cudasim.torch_private import compiler as dynamo

    patches.finally_do(dynamo.allow_constants(CudaProperties))


def _patch_libraries(patches: Patches) -> None:
    cudnn = torch.backends.cudnn.m  # the module; `torch.backends.cudnn` forwards to it
    patches.replace(cudnn, "is_available", lambda: True)
    patches.replace(cudnn, "version", lambda: CUDNN_VERSION)
    # It warns that Triton, which comes with builds for CUDA, is not there, and says nothing else.
    patches.replace(logging.getLogger("torch.utils.flop_counter"), "disabled", True)

    # Plans of cuFFT: none is ever made.
    limits: dict[int, int] = {}
    plans = vars(torch.backends.cuda.cuFFTPlanCache)
    patches.replace(plans["size"], "getter", lambda index: 0)
    patches.replace(plans["max_size"], "getter", lambda index: limits.get(index, PLANS))
    patches.replace(plans["max_size"], "setter", limits.__setitem__)
    patches.replace(*private.CLEAR_PLAN_CACHE, do_nothing)
    plan_caches = torch.backends.cuda.cuFFTPlanCacheManager()
    patches.replace(torch.backends.cuda, "cufft_plan_cache", plan_caches)
