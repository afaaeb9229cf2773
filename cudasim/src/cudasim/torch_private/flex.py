"""`flex_attention`, once its module is imported, which imports the compiler."""

import sys

import torch.nn.attention.flex_attention  # noqa: F401  (see below)

from cudasim.torch_private import Attribute

# Whether it runs as it is written; it compiles itself otherwise. Its package may not know the
# module yet, as its import is just ending.
RUN_UNCOMPILED = Attribute(
    sys.modules["torch.nn.attention.flex_attention"],
    "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG",
)
