"""How PyTorch dispatches operations: modes, tracing, fake tensors, transforms."""

import sys
from collections.abc import Callable

import torch
import torch._functorch.autograd_function
import torch._higher_order_ops.flex_attention
import torch._subclasses.fake_tensor
import torch._subclasses.functional_tensor
import torch.utils._device
import torch.utils._python_dispatch
import torch.utils._pytree

from cudasim.torch_private import Attribute

# Dispatch modes.
DisableTorchDispatch = torch._C._DisableTorchDispatch
count_dispatch_modes = torch._C._len_torch_dispatch_stack
dispatch_modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack
DISABLE_MODES = Attribute(torch.utils._python_dispatch, "_disable_current_modes")

# `with torch.device(...)`, which remembers in its module the functions that it serves.
default_device = torch.utils._device

# Tracing by TorchScript, and fake tensors.
is_tracing = torch._C._is_tracing
fake_tensor = torch._subclasses.fake_tensor

# The transforms of `torch.func`.
in_transform = torch._C._are_functorch_transforms_active
TransformType = torch._C._functorch.TransformType
custom_function_call = torch._functorch.autograd_function.custom_function_call
FunctionalizeAPI = torch._subclasses.functional_tensor.FunctorchFunctionalizeAPI

# What traces the gradients of flex attention. The operator has the name of its module,
# and hides it there.
FLEX_ATTENTION_GRAPH = Attribute(
    sys.modules["torch._higher_order_ops.flex_attention"], "create_fw_bw_graph"
)

# Operators, and trees of their arguments.
to_copy = torch.ops.aten._to_copy.default
tree_map_only = torch.utils._pytree.tree_map_only


def schema_name(operator: Callable) -> str:
    """Return the name of an operator with its namespace: `aten::add`."""
    return operator._schema.name


# The kernels that programs register with `torch.library`: sets of keys such as
# "aten/add.Tensor/CUDA", of one library and of all that exist.
all_kernels = torch.library._impls


def kernels_of(library: torch.library.Library) -> set[str]:
    """Return the keys of the kernels that `library` has registered."""
    return library._op_impls


def local_tensor(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the part of a DTensor that this process holds; None for any other tensor."""
    if hasattr(type(tensor), "_local_tensor"):
        return tensor._local_tensor
    return None
