"""How PyTorch dispatches operations: keys, modes, tracing, fake tensors, transforms."""

import sys

import torch
import torch._functorch.autograd_function
import torch._higher_order_ops.flex_attention
import torch._prims_common
import torch._subclasses.fake_tensor
import torch._subclasses.functional_tensor
import torch.utils._device
import torch.utils._python_dispatch

from cudasim.torch_private import Attribute

# Dispatch keys, and the kernels that operators have for them.
DispatchKey = torch._C.DispatchKey
DispatchKeySet = torch._C.DispatchKeySet
BelowAutograd = torch._C._AutoDispatchBelowAutograd
WithoutKeys = torch._C._ExcludeDispatchKeyGuard
SetKeyExcluded = torch._C._SetExcludeDispatchKeyGuard
include_key = torch._C._dispatch_tls_set_dispatch_key_included
is_key_included = torch._C._dispatch_tls_is_dispatch_key_included
has_any_kernel = torch._C._dispatch_has_kernel
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
# Whether a call with a dispatch key finds a kernel: the key's own or a composite one.
runs_on = torch._C._dispatch_has_computed_kernel_for_dispatch_key
operators_with_kernel = torch._C._dispatch_get_registrations_for_dispatch_key

# Dispatch modes, and `__torch_function__`.
TorchDispatchMode = torch.utils._python_dispatch.TorchDispatchMode
DisableTorchDispatch = torch._C._DisableTorchDispatch
DisableTorchFunction = torch._C.DisableTorchFunction
count_dispatch_modes = torch._C._len_torch_dispatch_stack
dispatch_modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack
innermost_mode = torch.utils._python_dispatch._get_current_dispatch_mode
active_mode = torch._C._get_dispatch_mode
fake_mode_key = torch._C._TorchDispatchModeKey.FAKE
proxy_mode_key = torch._C._TorchDispatchModeKey.PROXY
DISABLE_MODES = Attribute(torch.utils._python_dispatch, "_disable_current_modes")

# `with torch.device(...)`, which remembers in its module the functions that it serves.
default_device = torch.utils._device

# Tracing by TorchScript, and the tensors that compilers trace with.
is_tracing = torch._C._is_tracing
fake_tensor = torch._subclasses.fake_tensor
FakeTensor = torch._subclasses.fake_tensor.FakeTensor
FunctionalTensor = torch._subclasses.functional_tensor.FunctionalTensor

# The transforms of `torch.func`.
in_transform = torch._C._are_functorch_transforms_active
is_batched = torch._C._functorch.is_batchedtensor
is_transformed = torch._C._functorch.is_functorch_wrapped_tensor
unwrap = torch._C._functorch.get_unwrapped
TransformType = torch._C._functorch.TransformType
custom_function_call = torch._functorch.autograd_function.custom_function_call
FunctionalizeAPI = torch._subclasses.functional_tensor.FunctorchFunctionalizeAPI

# What traces the gradients of flex attention. The operator has the name of its module,
# and hides it there.
FLEX_ATTENTION_GRAPH = Attribute(
    sys.modules["torch._higher_order_ops.flex_attention"], "create_fw_bw_graph"
)

# `torch.use_deterministic_algorithms`: whether it is set, and what then refuses.
is_deterministic = torch._C._get_deterministic_algorithms
alert_not_deterministic = torch._prims_common.alert_not_deterministic
