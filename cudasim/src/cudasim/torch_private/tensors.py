"""Tensors and storages, and what works on them: autograd, modules, compilers."""

from collections.abc import Callable
from typing import Any

import torch
import torch._tensor_str
from torch import Tensor, UntypedStorage
from torch.autograd import forward_ad, profiler
from torch.nn.parameter import UninitializedTensorMixin

from cudasim.torch_private import Attribute

# Making and printing tensors; the type and the device that are the default.
MAKE_WRAPPER_SUBCLASS = Attribute(Tensor, "_make_wrapper_subclass")
SET_DEFAULT_TENSOR_TYPE = Attribute(torch._C, "_set_default_tensor_type")
GET_DEFAULT_DEVICE = Attribute(torch._C, "_get_default_device")
TENSOR_TO_TEXT = Attribute(torch._tensor_str, "_str")
print_options = torch._tensor_str.PRINT_OPTS

# How many owners a tensor has, C++'s among them.
use_count = Tensor._use_count

# Storages that processes share, on the host and on GPUs.
SHARE_BY_DESCRIPTOR = Attribute(UntypedStorage, "_share_fd_cpu_")
SHARE_BY_FILE = Attribute(UntypedStorage, "_share_filename_cpu_")
SHARE_ON_GPU = Attribute(UntypedStorage, "_share_cuda_")
OPEN_SHARED_ON_GPU = Attribute(UntypedStorage, "_new_shared_cuda")
RELEASE_SHARED_ON_GPU = Attribute(UntypedStorage, "_release_ipc_counter_cuda")
open_shared_file = UntypedStorage._new_shared_filename_cpu
keep_shared_file = UntypedStorage._shared_incref
let_go_shared_file = UntypedStorage._shared_decref

# Autograd: where backward begins, and what runs it.
MAKE_GRADS = Attribute(torch.autograd, "_make_grads")
RUN_BACKWARD = Attribute(torch.autograd, "_engine_run_backward")


def backward_class(function: type[torch.autograd.Function]) -> type:
    """Return the class of the nodes that a `Function` adds to graphs."""
    return function._backward_cls


# Functions of layers, below `torch.nn.functional` and beside it.
ATTENTION = Attribute(torch._C._nn, "scaled_dot_product_attention")
ONE_HOT = Attribute(torch._C._nn, "one_hot")
PARSE_TO = Attribute(torch._C._nn, "_parse_to")
STFT = Attribute(torch._VF, "stft")
recurrent_functions = torch._VF

# The methods that a lazy layer's parameters allow before they have a shape.
ALLOWED_METHODS = Attribute(UninitializedTensorMixin, "_allowed_methods")

# The kernels of attention that a program has left enabled.
is_math_attention_enabled = torch._C._get_math_sdp_enabled
is_flash_attention_enabled = torch._C._get_flash_sdp_enabled
is_efficient_attention_enabled = torch._C._get_mem_efficient_sdp_enabled
is_cudnn_attention_enabled = torch._C._get_cudnn_sdp_enabled

# Optimizers group parameters before they step.
GROUP_TENSORS = Attribute(torch._C, "_group_tensors_by_device_and_dtype")

# The profiler.
PARSE_PROFILE = Attribute(profiler.profile, "_parse_kineto_results")

# Compilers: what a build with CUDA has, and the tables of TorchScript.
ALLOCATOR_STATE = Attribute(torch._C, "_cuda_CUDAAllocator_AllocatorState")
CACHE_TENSORS = Attribute(torch._C, "_set_cached_tensors_enabled")
torchscript_files = torch.jit._serialization


def torchscript_names() -> dict[int, str]:
    """Return TorchScript's names of PyTorch's functions, by the functions' identities."""
    return torch.jit._builtins._get_builtin_table()


def find_compiler(name: str) -> Callable[..., Any]:
    """Return a backend of `torch.compile`. It imports the compiler, which takes a second."""
    return torch._dynamo.lookup_backend(name)


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return whether forward-mode differentiation goes through `tensor`."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def attention_order() -> list[int]:
    """Return the numbers of the kernels of attention, in the order in which they are tried."""
    return torch._C._get_sdp_priority_order()
