"""`torch.cuda`: what it has and other types of GPU have not."""

import ctypes
import itertools
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import torch

from cudasim.backends.accelerator import patch_module, refuse
from cudasim.backends.cuda.graphs import patch_graphs
from cudasim.backends.cuda.legacy import LegacyType, Markers
from cudasim.backends.cuda.properties import CudaProperties
from cudasim.backends.cuda.streams import patch_cuda_streams
from cudasim.backends.memory import (
    free_and_total,
    observe_refusals,
    record_history,
    record_history_legacy,
)
from cudasim.backends.streams import current_id
from cudasim.device.gpu import Allocation
from cudasim.device.types import cuda as runtime
from cudasim.dispatch.waiting import CAPTURING, ERROR, WARN
from cudasim.patching import Patches
from cudasim.session import session

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
    """Be busy for `cycles` of a clock of 1 GHz; the host waits, as nothing runs aside.

    On a virtual clock the current stream is busy, and the host goes on. As CUDA's kernel does,
    it ends at once where they are less than none.
    """
    cycles = max(int(cycles), 0)
    if session.clock is None:
        time.sleep(cycles / 1e9)
        return
    gpu = session.current()
    session.clock.kernel(gpu.index, current_id(gpu.index), "sleep", cycles, fills=False)


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


class Switches:
    """Settings that torch reads back and that change nothing here."""

    caching = True
    benchmark_limit = 10


def bindings(switches: Switches) -> dict[str, Callable]:
    """What stands for the functions of `torch._C`, by name."""
    custom = "cudasim: a simulated GPU has no allocators but its own"
    return {
        "_cuda_ipc_collect": lambda: None,
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


def patch_api(patches: Patches) -> None:
    """Make `torch.cuda` report the simulated GPUs."""
    patch_module(patches, CudaProperties)
    patch_cuda_streams(patches)
    patch_graphs(patches)
    for name, function in bindings(Switches()).items():
        patches.replace(torch._C, name, function)
    cuda = torch.cuda
    patches.replace(cuda, "_cudart", Runtime)
    patches.replace(cuda.nvtx, "_nvtx", Markers())
    parts = refuse("cudasim: a simulated GPU's processors cannot be shared out")
    patches.replace(cuda.GreenContext, "create", staticmethod(parts))
    for name in cuda.__all__:
        if name.endswith("Tensor"):
            patches.replace(cuda, name, LegacyType(name, (), {}))
    cudnn = torch.backends.cudnn.m  # the module; `torch.backends.cudnn` forwards to it
    patches.replace(cudnn, "is_available", lambda: True)
    patches.replace(cudnn, "version", lambda: CUDNN_VERSION)
    patches.replace(cudnn, "is_acceptable", lambda tensor: False)  # the CPU's kernels compute
