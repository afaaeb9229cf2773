"""Functions and layers that look at devices before they call the operations they are made of.

The dispatch mode sees only those operations, each of which would refuse in its own words.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cudasim.dispatch.tags import device_of, gpu_of
from cudasim.patching import Patches
from cudasim.session import session


def patch_functional(patches: Patches) -> None:
    """Make quantiles and recurrent layers refuse operands on several devices in their own words."""
    for owner in (torch, Tensor):
        for name in ("quantile", "nanquantile"):
            patches.replace(owner, name, make_quantile(getattr(owner, name)))
    one_hot = make_one_hot(nn.functional.one_hot)
    for owner in (nn.functional, torch._C._nn):
        patches.replace(owner, "one_hot", one_hot)
    patches.replace(torch, "ctc_loss", make_ctc_loss(torch.ctc_loss))
    patches.replace(nn.RNNBase, "flatten_parameters", flatten_parameters)
    if session.type.decomposes_recurrent_layers:
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
            recurrent = make_recurrent(getattr(torch, name))
            for owner in (torch, torch._VF):  # modules look in the latter
                patches.replace(owner, name, recurrent)


def make_quantile(original: Callable) -> Callable:
    """`quantile` and `nanquantile` (aten/src/ATen/native/Sorting.cpp)."""

    @functools.wraps(original)
    def quantile(input: Tensor, q: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(q, Tensor) and q.dim() <= 1 and input.numel() and q.dtype == input.dtype:
            if device_of(q) != device_of(input):
                raise RuntimeError(
                    "quantile() q tensor must be on the same device as the input tensor"
                )
        return original(input, q, *args, **kwargs)

    return quantile


def make_one_hot(original: Callable) -> Callable:
    """`one_hot`, which on a CPU reads back the least and the greatest class, and on a GPU neither.

    As in aten/src/ATen/native/Onehot.cpp, where it matters: to who asks what waits, and to a clock.
    """

    @functools.wraps(original)
    def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
        told = session.clock is not None or session.watching
        if not told or num_classes < 0 or not tensor.numel() or gpu_of(tensor) is None:
            return original(tensor, num_classes)
        found = torch.zeros(*tensor.shape, num_classes, dtype=torch.int64, device=tensor.device)
        return found.scatter_(-1, tensor.unsqueeze(-1), 1)

    return one_hot


def make_ctc_loss(original: Callable) -> Callable:
    """`ctc_loss`, whose lengths C++ reads as numbers, whatever device they are on.

    As in aten/src/ATen/native/LossCTC.cpp; where a dispatch mode is at work it does not.
    """

    @functools.wraps(original)
    def ctc_loss(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if gpu_of(log_probs) is not None:
            lengths = input_lengths, target_lengths
            given = (each.tolist() if isinstance(each, Tensor) else each for each in lengths)
            input_lengths, target_lengths = given
        return original(log_probs, targets, input_lengths, target_lengths, *args, **kwargs)

    return ctc_loss


def make_recurrent(original: Callable) -> Callable:
    """A recurrent layer (aten/src/ATen/native/RNN.h). Packed sequences are not compared."""

    @functools.wraps(original)
    def recurrent(input: Tensor, hidden: Any, weights: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], bool):  # else the second argument has the batch sizes
            home = device_of(input)
            hidden_states = [hidden] if isinstance(hidden, Tensor) else hidden
            for name, tensors in (("hidden", hidden_states), ("parameter", weights)):
                for tensor in tensors:
                    if device_of(tensor) != home:
                        raise RuntimeError(
                            f"Input and {name} tensors are not at the same device, found input "
                            f"tensor at {home} and {name} tensor at {device_of(tensor)}"
                        )
        return original(input, hidden, weights, *args, **kwargs)

    return recurrent


def flatten_parameters(self: nn.RNNBase) -> None:
    """`RNNBase.flatten_parameters`: packs weights for cuDNN, of which there is nothing to do."""
