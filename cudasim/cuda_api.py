"""`torch.cuda` and `torch.accelerator`, answered by the simulated GPUs.

Both are Python over functions of `torch._C`. Those are replaced here, or added on a build of
PyTorch that has no CUDA, so that what programs call is torch's own code. Where C++ would
raise, its own errors are raised.
"""

import enum
import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudasim import gpus
from cudasim.gpus import GPU, Allocation
from cudasim.patching import Patches

CUDNN_VERSION = 91002  # 9.10.2, which the CUDA builds of torch 2.9 bring
NOTHING = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
CAPTURE = "cudasim: CUDA graphs record kernels, and a simulated GPU has none; run without them"


class DeviceProperties:
    """What `torch.cuda.get_device_properties` returns, with CUDA's names and print.

    `total_memory` and the other sizes are in bytes. What depends on the generation of the card
    only is that of CUDA's programming guide
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities).
    """

    def __init__(self, gpu: GPU) -> None:
        """The properties of `gpu`."""
        card = gpu.card
        self.name = gpu.name
        self.major, self.minor = card.capability
        self.total_memory = card.memory
        self.multi_processor_count = card.processors
        self.uuid = gpu.uuid
        self.warp_size = 32
        self.max_threads_per_block = 1024
        self.max_threads_per_multi_processor = 1024 if card.capability == (7, 5) else 2048
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 * 2**10
        shared = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (9, 0): 227}.get(card.capability, 99)
        self.shared_memory_per_block_optin = shared * 2**10
        self.shared_memory_per_multiprocessor = (shared + (self.major >= 8)) * 2**10
        self.is_integrated = self.is_multi_gpu_board = 0
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = gpu.index + 1, 0, 0
        self.L2_cache_size = card.cache
        self.gcnArchName = ""

    def __repr__(self) -> str:
        """As CUDA's properties print."""
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


class Status(enum.IntEnum):
    """Results of CUDA's runtime."""

    success = 0


class Runtime:
    """What `torch.cuda.cudart()` returns: the few calls of the runtime that torch has bound."""

    cudaError = Status

    @staticmethod
    def cudaMemGetInfo(index: int) -> tuple[int, int]:
        """(free, total) bytes of GPU `index`, as the driver counts them."""
        memory = gpus.get(index).memory
        return memory.size - memory.counts.reserved, memory.size

    @staticmethod
    def cudaGetErrorString(status: int) -> str:
        """The words for a result."""
        return "no error" if status == Status.success else "unknown error"

    @staticmethod
    def _succeed(*args: Any) -> Status:
        return Status.success

    cudaProfilerStart = cudaProfilerStop = cudaHostRegister = cudaHostUnregister = _succeed
    cudaStreamCreate = cudaStreamDestroy = _succeed


class LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and its like: a type of number, on a GPU."""

    def __call__(cls, *args: Any) -> torch.Tensor:
        """A tensor on the current GPU, from sizes or from data."""
        return getattr(torch, cls.__name__)(*args).cuda()

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a tensor of that type on a GPU."""
        return isinstance(instance, torch.Tensor) and instance.type() == str(cls)

    def __repr__(cls) -> str:
        """As PyTorch prints it."""
        return f"<class '{cls}'>"

    def __str__(cls) -> str:
        """The name by which `Tensor.type` knows it."""
        return f"torch.cuda.{cls.__name__}"


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        """No range is open."""
        self._depth = 0
        self._ids = itertools.count(1)

    def rangePushA(self, message: str) -> int:
        """Open a range; returns how many were open."""
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        """Close the latest range; returns how many are still open, -1 if none was."""
        self._depth = max(self._depth - 1, -1)
        left, self._depth = self._depth, max(self._depth, 0)
        return left

    def rangeStartA(self, message: str) -> int:
        """Open a range that any thread may close; returns its number."""
        return next(self._ids)

    def rangeEnd(self, number: int) -> None:
        """Close the range of that number."""

    def markA(self, message: str) -> None:
        """Mark a moment."""

    def deviceRangeStart(self, message: str, stream: int) -> None:
        """Open a range on a stream."""

    def deviceRangeEnd(self, handle: Any, stream: int) -> None:
        """Close a range on a stream."""


def memory(index: int) -> Any:
    """The memory of GPU `index`. Raises RuntimeError, with CUDA's text, if there is none."""
    if not 0 <= index < len(gpus.gpus):
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return gpus.gpus[index].memory


def set_device(index: int) -> None:
    """Make GPU `index` the current one."""
    gpus.set_current(index)


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one; returns that which was. A negative index does nothing."""
    if index < 0:
        return -1
    before = gpus.current().index
    gpus.set_current(index)
    return before


def empty_cache() -> None:
    """Give the driver back what is reserved and holds no tensor, on every GPU."""
    for gpu in gpus.gpus:
        gpu.memory.empty_cache()


def properties(index: int) -> DeviceProperties:
    """The properties of GPU `index`."""
    return DeviceProperties(gpus.get(index))


def wait(index: int | None = None) -> None:
    """Wait for a GPU, which is never busy."""
    gpus.get(index)


def snapshot(*which: Any) -> dict[str, list]:
    """The segments of every GPU, as `torch.cuda.memory_snapshot` tells them; no history."""
    segments = []
    for gpu in gpus.gpus:
        for pool in (gpu.memory.small, gpu.memory.large):
            for number, segment in enumerate(pool.segments):
                used = segment.size - segment.free
                address = 0x7F0000000000 + (gpu.index << 40) + (number << 24)
                pieces = (("active_allocated", used), ("inactive", segment.free))
                blocks = [
                    {"size": size, "requested_size": size, "state": state, "address": address}
                    for state, size in pieces
                    if size
                ]
                segments.append(
                    {
                        "device": gpu.index,
                        "address": address,
                        "total_size": segment.size,
                        "allocated_size": used,
                        "active_size": used,
                        "requested_size": used,
                        "stream": 0,
                        "segment_type": "small" if pool.small else "large",
                        "segment_pool_id": (0, 0),
                        "is_expandable": False,
                        "frames": [],
                        "blocks": blocks,
                    }
                )
    return {
        "segments": segments,
        "device_traces": [[] for _ in gpus.gpus],
        "allocator_settings": {},
        "external_annotations": [],
    }


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


def can_access_peer(index: int, peer: int) -> bool:
    """True between two GPUs: one reads the other's memory; a GPU is no peer of itself."""
    return gpus.get(index) is not gpus.get(peer)


def sleep(cycles: int) -> None:
    """Be busy for `cycles` of a clock of 1 GHz; the host waits, as nothing runs aside."""
    time.sleep(cycles / 1e9)


_raw: dict[int, Allocation] = {}  # address -> what caching_allocator_alloc gave


def raw_allocate(size: int, stream: int) -> int:
    """Count `size` bytes on the current GPU as taken; returns what stands for an address."""
    address = 0x7E0000000000 + (uuid.uuid4().int & 0xFFFFFFFF) * 512
    _raw[address] = Allocation(gpus.current(), size)
    return address


def raw_delete(address: int) -> None:
    """Give back what `raw_allocate` took. Raises RuntimeError for another address."""
    if _raw.pop(address, None) is None:
        raise RuntimeError(f"invalid device pointer: {address:#x}")


class Switches:
    """Settings that torch reads back and that change nothing here."""

    sync_debug_mode = 0
    caching = True
    benchmark_limit = 10


def refuse(words: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError, saying why."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(words)

    return refused


def bindings(switches: Switches) -> dict[str, Callable]:
    """What stands for the functions of `torch._C`, by name."""
    custom = "cudasim: a simulated GPU has no allocators but its own"
    return {
        "_cuda_init": lambda: None,
        "_cuda_getDeviceCount": lambda: len(gpus.gpus),
        "_cuda_getDevice": lambda: gpus.current().index,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": exchange_device,
        "_cuda_maybeExchangeDevice": exchange_device,
        "_cuda_synchronize": wait,
        "_cuda_ipc_collect": lambda: None,
        "_cuda_canDeviceAccessPeer": can_access_peer,
        "_cuda_getArchFlags": lambda: " ".join(
            sorted({"sm_{}{}".format(*gpu.card.capability) for gpu in gpus.gpus})
        ),
        "_cuda_sleep": sleep,
        "_cuda_getCurrentBlasHandle": lambda: 0,
        "_cuda_getCurrentSolverHandle": lambda: 0,
        "_cuda_get_sync_debug_mode": lambda: switches.sync_debug_mode,
        "_cuda_set_sync_debug_mode": lambda mode: setattr(switches, "sync_debug_mode", mode),
        "_cuda_get_cudnn_benchmark_limit": lambda: switches.benchmark_limit,
        "_cuda_set_cudnn_benchmark_limit": lambda limit: setattr(
            switches, "benchmark_limit", limit
        ),
        "_cuda_isCurrentStreamCapturing": lambda: False,
        "_cuda_emptyCache": empty_cache,
        "_cuda_memoryStats": lambda index: memory(index).stats(),
        "_cuda_resetPeakMemoryStats": lambda index: memory(index).reset_peaks(),
        "_cuda_resetAccumulatedMemoryStats": lambda index: memory(index).reset_totals(),
        "_cuda_setMemoryFraction": lambda part, index: memory(index).set_fraction(part),
        "_cuda_getMemoryFraction": lambda index: memory(index).fraction,
        "_cuda_memorySnapshot": snapshot,
        "_cuda_record_memory_history": lambda *args, **kwargs: None,
        "_cuda_record_memory_history_legacy": lambda *args, **kwargs: None,
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
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_get_accelerator": lambda check=None: torch.device("cuda"),
        "_accelerator_hooks_device_count": lambda: len(gpus.gpus),
        "_accelerator_hooks_get_current_device": lambda: gpus.current().index,
        "_accelerator_hooks_set_current_device": set_device,
        "_accelerator_hooks_exchange_device": exchange_device,
        "_accelerator_hooks_maybe_exchange_device": exchange_device,
        "_accelerator_getDeviceIndex": lambda: gpus.current().index,
        "_accelerator_setDeviceIndex": lambda index: None if index < 0 else set_device(index),
        "_accelerator_exchangeDevice": exchange_device,
        "_accelerator_maybeExchangeDevice": exchange_device,
        "_accelerator_synchronizeDevice": wait,
        "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": dtypes()},
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": empty_cache,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": lambda index: memory(index).stats(),
        "_accelerator_resetPeakStats": lambda index: memory(index).reset_peaks(),
        "_accelerator_resetAccumulatedStats": lambda index: memory(index).reset_totals(),
        "_accelerator_getMemoryInfo": Runtime.cudaMemGetInfo,
    }


def dtypes() -> set[torch.dtype]:
    """The types of numbers that tensors on a GPU can have."""
    kinds = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return {kind for kind in kinds if not str(kind).startswith(("torch.q", "torch.bits"))}


def patch_cuda(patches: Patches) -> None:
    """Let `torch.cuda` and `torch.accelerator` speak of the simulated GPUs."""
    for name, function in bindings(Switches()).items():
        patches.replace(torch._C, name, function)
    patches.replace(torch._C, "_has_cuda", True)  # torch.backends.cuda.is_built()
    cuda = torch.cuda
    patches.replace(cuda, "_initialized", True)
    patches.replace(cuda, "_cached_device_count", len(gpus.gpus))
    patches.replace(cuda, "_exchange_device", exchange_device)
    patches.replace(cuda, "_maybe_exchange_device", exchange_device)
    patches.replace(cuda, "_get_device_properties", properties)
    patches.replace(cuda, "_cudart", Runtime)
    patches.replace(cuda, "_lazy_init", lambda: None)
    patches.replace(cuda.memory, "_lazy_init", cuda._lazy_init)
    patches.replace(cuda.random, "_lazy_init", cuda._lazy_init)
    patches.replace(cuda.nvtx, "_nvtx", Markers())
    patches.replace(cuda.graphs, "_cuda_isCurrentStreamCapturing", lambda: False)
    graphs = [cuda.graphs.CUDAGraph, getattr(torch.accelerator, "Graph", None)]  # from 2.12 on
    for owner in filter(None, graphs):
        patches.replace(owner, "__new__", staticmethod(refuse(CAPTURE)))
    patches.replace(cuda.graphs.graph, "__init__", refuse(CAPTURE))
    for name in ("graph_pool_handle", "make_graphed_callables"):
        patches.replace(cuda.graphs, name, refuse(CAPTURE))
        patches.replace(cuda, name, getattr(cuda.graphs, name))
    pools = refuse("cudasim: a simulated GPU has one pool of memory and no others")
    refused_pool = type("MemPool", (), {"__new__": staticmethod(pools)})
    for owner in (cuda, cuda.memory):
        patches.replace(owner, "MemPool", refused_pool)
    parts = refuse("cudasim: a simulated GPU's processors cannot be shared out")
    patches.replace(torch.cuda.GreenContext, "create", staticmethod(parts))
    for name in cuda.__all__:
        if name.endswith("Tensor"):
            patches.replace(cuda, name, LegacyType(name, (), {}))
    cudnn = torch.backends.cudnn.m  # the module; `torch.backends.cudnn` forwards to it
    patches.replace(cudnn, "is_available", lambda: True)
    patches.replace(cudnn, "version", lambda: CUDNN_VERSION)
    patches.replace(cudnn, "is_acceptable", lambda tensor: False)  # the CPU's kernels compute
    torch.accelerator.get_device_capability.cache_clear()
    patches.finally_do(torch.accelerator.get_device_capability.cache_clear)
    patches.finally_do(cuda._check_bf16_tensor_supported.cache_clear)
    patches.finally_do(_raw.clear)
