"""The functions of `torch._C` behind `torch.accelerator`, `torch.cuda` and `torch.mps`."""

import torch
import torch.cuda._gpu_trace
import torch.cuda._utils
import torch.nn.parallel._functions
from torch import cuda

from cudasim.torch_private import Attribute, Bindings

# The symbol of C++'s table of the types of devices, c10::impl::device_guard_impl_registry.
# `patches.guards` does without it where a library has no such symbol.
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"

# torch.accelerator
ACCELERATOR = Bindings(
    "_accelerator_",
    """
    getAccelerator getDeviceIndex setDeviceIndex exchangeDevice maybeExchangeDevice
    hooks_device_count hooks_get_current_device hooks_set_current_device
    hooks_exchange_device hooks_maybe_exchange_device getDeviceCapability
    synchronizeDevice getStream setStream getDefaultGenerator
    isAllocatorInitialized emptyCache emptyHostCache getDeviceStats getMemoryInfo
    resetAccumulatedStats resetPeakStats getAllocatorSettings setAllocatorSettings
    """,
)
GET_ACCELERATOR = Attribute(torch._C, "_get_accelerator")

# torch.cuda: devices, their memory, streams and settings.
CUDA = Bindings(
    "_cuda_",
    """
    init isInBadFork hasPrimaryContext synchronize sleep
    getDevice setDevice exchangeDevice maybeExchangeDevice getDeviceCount
    canDeviceAccessPeer getArchFlags getCompiledVersion
    getCurrentStream getCurrentRawStream getDefaultStream getStreamFromExternal
    setStream get_sync_debug_mode set_sync_debug_mode

    emptyCache memorySnapshot memoryStats hostMemoryStats getAllocatorBackend
    getMemoryFraction setMemoryFraction resetPeakMemoryStats resetPeakHostMemoryStats
    resetAccumulatedMemoryStats resetAccumulatedHostMemoryStats
    record_memory_history record_memory_history_legacy attach_out_of_memory_observer
    isHistoryEnabled allocationTraceback
    getMemoryMetadata setMemoryMetadata memoryMetadataSupported annotateMemory
    cudaCachingAllocator_raw_alloc cudaCachingAllocator_raw_delete
    cudaCachingAllocator_is_enabled cudaCachingAllocator_enable
    changeCurrentAllocator customAllocator getAllocator cudaHostAllocator ipc_collect

    getCurrentBlasHandle getCurrentSolverHandle clearCublasWorkspaces
    getCublasWorkspaceSize setCublasWorkspaceSize resetCublasWorkspaceSize
    getCublasLtWorkspaceSize setCublasLtWorkspaceSize resetCublasLtWorkspaceSize
    get_cudnn_benchmark_limit set_cudnn_benchmark_limit
    get_conv_benchmark_empty_cache jiterator_compile_and_launch_kernel

    record_untuned_is_enabled record_untuned_enable
    tunableop_is_enabled tunableop_enable
    tunableop_tuning_is_enabled tunableop_tuning_enable
    tunableop_get_max_tuning_duration tunableop_set_max_tuning_duration
    tunableop_get_max_tuning_iterations tunableop_set_max_tuning_iterations
    tunableop_get_cublaslt_requested_algo_count
    tunableop_set_cublaslt_requested_algo_count
    tunableop_get_rotating_buffer_size tunableop_set_rotating_buffer_size
    tunableop_get_filename tunableop_set_filename
    tunableop_get_results tunableop_get_validators tunableop_read_file
    tunableop_set_numerical_check_tolerances
    """,
)
LIBRARIES = Bindings(
    "_",
    """
    get_linalg_preferred_backend set_linalg_preferred_backend
    get_blas_preferred_backend set_blas_preferred_backend
    cudnn_set_conv_benchmark_empty_cache
    """,
)
LinearAlgebraBackend = torch._C._LinalgBackend
BlasBackend = torch._C._BlasBackend
HAS_CUDA = Attribute(torch._C, "_has_cuda")
DEVICE_PROPERTIES = Attribute(torch._C, "_CudaDeviceProperties")
CLEAR_PLAN_CACHE = Attribute(torch, "_cufft_clear_plan_cache")

# Callbacks that follow what a GPU does: `torch.cuda._sanitizer` registers some.
ACTIVATE_GPU_TRACE = Attribute(torch._C, "_activate_gpu_trace")
gpu_trace = torch.cuda._gpu_trace

# The precision that products in float32 may have, as `torch.backends` sets it.
read_fp32_precision = torch._C._get_fp32_precision_getter

# What the Python code of torch.cuda keeps and calls. Its modules import from one another.
IS_INITIALIZED = Attribute(cuda, "_initialized")
LAZY_INIT = tuple(
    Attribute(module, "_lazy_init") for module in (cuda, cuda.memory, cuda.random)
)
LAZY_CALL = tuple(Attribute(module, "_lazy_call") for module in (cuda, cuda.random))
IS_IN_BAD_FORK = Attribute(cuda, "_is_in_bad_fork")
CACHED_DEVICE_COUNT = Attribute(cuda, "_cached_device_count")
COUNT_BY_NVML = Attribute(cuda, "_device_count_nvml")
EXCHANGE_DEVICE = Attribute(cuda, "_exchange_device")
MAYBE_EXCHANGE_DEVICE = Attribute(cuda, "_maybe_exchange_device")
GET_DEVICE_PROPERTIES = Attribute(cuda, "_get_device_properties")
CUDA_RUNTIME = Attribute(cuda, "_cudart")
NVTX = Attribute(cuda.nvtx, "_nvtx")
read_device_index = torch.cuda._utils._get_device_index

# Graphs and private pools of memory.
POOLS = Bindings(
    "_cuda_",
    """
    beginAllocateToPool beginAllocateCurrentThreadToPool beginAllocateCurrentStreamToPool
    endAllocateToPool releasePool checkPoolLiveAllocations
    getCheckpointState setCheckpointPoolState isCurrentStreamCapturing
    """,
)
GRAPH_POOL_HANDLE = Attribute(torch._C, "_graph_pool_handle")
EMPTY_HOST_CACHE = Attribute(torch._C, "_host_emptyCache")

# Copies between several GPUs, of torch.cuda.comm and DataParallel, and torch.cuda.nccl.
COPIES = Bindings(
    "_",
    """
    broadcast broadcast_out broadcast_coalesced scatter scatter_out gather gather_out
    nccl_all_reduce nccl_reduce nccl_reduce_scatter nccl_broadcast nccl_all_gather
    """,
)
COPYING_STREAMS = Attribute(torch.nn.parallel._functions, "_streams")
Broadcast = torch.nn.parallel._functions.Broadcast
ReduceAddCoalesced = torch.nn.parallel._functions.ReduceAddCoalesced

# torch.mps
MPS = Bindings(
    "_mps_",
    """
    is_available is_on_macos_or_newer get_name get_core_count get_default_generator
    deviceSynchronize emptyCache setMemoryFraction recommendedMaxMemory
    currentAllocatedMemory driverAllocatedMemory
    acquireEvent releaseEvent recordEvent queryEvent waitForEvent synchronizeEvent
    elapsedTimeOfEvents compileShader loadMetalllib loadMetallibFromPath
    profilerStartTrace profilerStopTrace
    """,
)
HAS_MPS = Attribute(torch._C, "_has_mps")
DEFAULT_MPS_GENERATOR = Attribute(torch.mps, "_default_mps_generator")

# Streams and events of any device, by the names by which the compiler makes them.
STREAM = Attribute(torch._C, "Stream")
EVENT = Attribute(torch._C, "Event")
