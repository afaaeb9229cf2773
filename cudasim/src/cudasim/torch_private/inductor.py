"""What AOTInductor is made of, once its module is imported."""

import sys

import torch._inductor.compile_fx  # noqa: F401  (see below)

from cudasim.torch_private import Attribute

# The package may not know the module yet, as its import is just ending.
COMPILE_AHEAD = Attribute(sys.modules["torch._inductor.compile_fx"], "compile_fx_aot")
