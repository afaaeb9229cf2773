"""What launches compiled graphs as CUDA graphs, once its module is imported."""

import sys

import torch._inductor.cudagraph_trees  # noqa: F401  (see below)

from cudasim.torch_private import Attribute

# What makes CUDA graphs of a compiled graph, and what finds the trees of those of a GPU.
# The package may not know the module yet, as its import is just ending.
MAKE_GRAPHS = Attribute(
    sys.modules["torch._inductor.cudagraph_trees"], "cudagraphify_impl"
)
FIND_TREES = Attribute(sys.modules["torch._inductor.cudagraph_trees"], "get_manager")
