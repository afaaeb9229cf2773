"""What traces a graph together with its gradients, once its module is imported.

Most of the compiler is imported with it.
"""

import sys

import torch._functorch.aot_autograd
import torch._subclasses.functional_tensor

from cudasim.torch_private import Attribute

# What begins to trace a graph, and what then sees every operation. The package may not know
# the module yet, as its import is just ending.
TRACE = Attribute(sys.modules["torch._functorch.aot_autograd"], "create_aot_state")
FUNCTIONALIZE = Attribute(
    torch._subclasses.functional_tensor.FunctionalTensorMode, "__torch_dispatch__"
)
