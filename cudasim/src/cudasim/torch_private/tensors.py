"""Tensors and storages, and what works on them: autograd, modules, compilers."""

from collections.abc import Callable
from typing import Any

import torch
import torch._tensor_str
import torch.backends.cudnn.rnn
from torch import Tensor, UntypedStorage
from torch.autograd import forward_ad, profiler
from torch.nn.parameter import UninitializedTensorMixin

from cudasim.torch_private import Attribute


def address_of(item: UntypedStorage | torch._C.Generator) -> int:
    """Return the address of C++'s part of a storage or a generator."""
    return item._cdata


# Making and printing tensors; the type and the device that are the default.
MAKE_WRAPPER_SUBCLASS = Attribute(Tensor, "_make_wrapper_subclass")
SET_DEFAULT_TENSOR_TYPE = Attribute(torch._C, "_set_default_tensor_type")
GET_DEFAULT_DEVICE = Attribute(torch._C, "_get_default_device")
TENSOR_TO_TEXT = Attribute(torch._tensor_str, "_str")
print_options = torch._tensor_str.PRINT_OPTS

# How many owners a tensor or a storage has, C++'s among them; the storage by its address.
use_count = Tensor._use_count
storage_use_count = torch._C._storage_Use_Count

is_view = Tensor._is_view


def local_tensor(tensor: Tensor) -> Tensor | None:
    """Return the part of a DTensor that this process holds; None for any other tensor."""
    if hasattr(type(tensor), "_local_tensor"):
        return tensor._local_tensor
    return None


# Sparse tensors, and the layout of those of MKL-DNN.
count_stored = Tensor._nnz
sparse_indices = Tensor._indices
sparse_values = Tensor._values
mkldnn_layout = torch._mkldnn

# The layout of CUTLASS for matrices of which two in four numbers are kept.
compress_for_cutlass = (
    torch.sparse._semi_structured_conversions.sparse_semi_structured_from_dense_cutlass
)
expand_from_cutlass = (
    torch.sparse._semi_structured_conversions.sparse_semi_structured_to_dense_cutlass
)

# The class of C++'s generators of random numbers, below `torch.Generator`.
CppGenerator = torch._C.Generator

# Storages that processes share, on the host and on GPUs.
SHARE_BY_DESCRIPTOR = Attribute(UntypedStorage, "_share_fd_cpu_")
SHARE_BY_FILE = Attribute(UntypedStorage, "_share_filename_cpu_")
SHARE_ON_GPU = Attribute(UntypedStorage, "_share_cuda_")
OPEN_SHARED_ON_GPU = Attribute(UntypedStorage, "_new_shared_cuda")
RELEASE_SHARED_ON_GPU = Attribute(UntypedStorage, "_release_ipc_counter_cuda")
open_shared_file = UntypedStorage._new_shared_filename_cpu
keep_shared_file = UntypedStorage._shared_incref
let_go_shared_file = UntypedStorage._shared_decref

# Autograd: where backward begins, and the function that runs it in C++'s engine.
MAKE_GRADS = Attribute(torch.autograd, "_make_grads")
RUN_BACKWARD = Attribute(torch.autograd, "_engine_run_backward")
run_engine = torch.autograd.graph._engine_run_backward
compute_gradients = torch.autograd.Variable._execution_engine.run_backward

# The number of the backward pass that this thread is in; -1 in none.
backward_id = torch._C._current_graph_task_id

# The node that the engine evaluates in this thread, with the hooks before and after it; None
# in no backward.
current_node = torch._C._current_autograd_node
next_node_number = torch.autograd._get_sequence_nr
# The number of every node that accumulates the gradient of a leaf.
ACCUMULATES = 2**64 - 1


def number_of(node: torch.autograd.graph.Node) -> int:
    """Return the number of a node, among those that its thread has made."""
    return node._sequence_nr()


# `torch.set_grad_enabled` without the object that it makes.
set_grad_enabled = torch._C._set_grad_enabled


def backward_class(function: type[torch.autograd.Function]) -> type:
    """Return the class of the nodes that a `Function` adds to graphs."""
    return function._backward_cls


def hooks_of(tensor: Tensor) -> dict[int, Callable[[Tensor], Any]]:
    """Return the hooks that `Tensor.register_hook` has registered, by their numbers."""
    return tensor._backward_hooks or {}


# Functions of layers, below `torch.nn.functional` and beside it.
ATTENTION = Attribute(torch._C._nn, "scaled_dot_product_attention")
ONE_HOT = Attribute(torch._C._nn, "one_hot")
PARSE_TO = Attribute(torch._C._nn, "_parse_to")
STFT = Attribute(torch._VF, "stft")
functions = torch._VF

# What recurrent layers ask before they pack their weights for cuDNN.
HAS_CUDNN_PACKING = Attribute(torch, "_use_cudnn_rnn_flatten_weight")
CUDNN_MODE = Attribute(torch.backends.cudnn.rnn, "get_cudnn_mode")
is_onednn_enabled = torch._C._get_mkldnn_enabled
enable_onednn = torch._C._set_mkldnn_enabled
CUDNN_DTYPES = torch.backends.cudnn.m.CUDNN_TENSOR_DTYPES

# The methods that a lazy layer's parameters allow before they have a shape.
ALLOWED_METHODS = Attribute(UninitializedTensorMixin, "_allowed_methods")

# The kernels of attention that a program has left enabled.
is_math_attention_enabled = torch._C._get_math_sdp_enabled
is_flash_attention_enabled = torch._C._get_flash_sdp_enabled
is_efficient_attention_enabled = torch._C._get_mem_efficient_sdp_enabled
is_cudnn_attention_enabled = torch._C._get_cudnn_sdp_enabled

# Optimizers group parameters before they step, and call something at the end of a step.
GROUP_TENSORS = Attribute(torch._C, "_group_tensors_by_device_and_dtype")
END_STEP = Attribute(torch.optim.Optimizer, "_optimizer_step_code")

# The profiler.
is_profiling = torch.autograd._profiler_enabled
PARSE_PROFILE = Attribute(profiler.profile, "_parse_kineto_results")
# The functions of `torch.autograd.profiler` that `emit_nvtx` calls to begin and to end.
PROFILER_SWITCHES = ("_enable_profiler", "_disable_profiler")

# Compilers: what a build with CUDA has, and the tables of TorchScript.
ALLOCATOR_STATE = Attribute(torch._C, "_cuda_CUDAAllocator_AllocatorState")
CACHE_TENSORS = Attribute(torch._C, "_set_cached_tensors_enabled")
is_cached_tensor = torch._C._is_cached_tensor
torchscript_files = torch.jit._serialization


def torchscript_names() -> dict[int, str]:
    """Return TorchScript's names of PyTorch's functions, by the functions' identities."""
    return torch.jit._builtins._get_builtin_table()


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether forward-mode differentiation goes through `tensor`."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def attention_order() -> list[int]:
    """Return the numbers of the kernels of attention, in the order in which they are tried."""
    return torch._C._get_sdp_priority_order()
