"""What layers of `torch.nn` ask of CUDA's libraries."""

from torch import nn

from cudasim.patching import Patches


def patch_layers(patches: Patches) -> None:
    """Let recurrent layers keep their weights apart.

    For cuDNN they pack them into one piece of memory, which changes no value.
    """
    patches.replace(nn.RNNBase, "flatten_parameters", flatten_parameters)


def flatten_parameters(self: nn.RNNBase) -> None:
    """`RNNBase.flatten_parameters`: nothing to do without cuDNN."""
