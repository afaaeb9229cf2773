"""Functions for which C++ chooses one kernel on CUDA, where the CPU takes several.

C++ reads a tensor's device itself, before any dispatch mode sees an operation. So these
functions are replaced. The files named below are in aten/src/ATen/native of PyTorch.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.tags import gpu_of
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private
from cudasim.torch_private.dispatch import in_transform, is_tracing
from cudasim.torch_private.operators import Softmax, log_softmax, softmax


def _has_kernels() -> bool:
    return session.type.is_cuda


def _runs_on_gpu(input: Any) -> bool:
    """Return whether an operation on `input` runs now, on a GPU.

    Compilers and transforms take operations apart by rules of their own, and TorchScript
    records the function itself.
    """
    if type(input) not in (Tensor, torch.nn.Parameter) or is_tracing():
        return False
    return not in_transform() and gpu_of(input) is not None


@replaces((torch, private.functions), "dropout", overridable=True, when=_has_kernels)
def dropout(original: Callable, input: Tensor, p: float, train: bool) -> Tensor:
    """Keep a mask of one byte for each number (`is_fused_kernel_acceptable`, Dropout.cpp)."""
    if train and 0 < p < 1 and _runs_on_gpu(input) and input.numel():
        output, _ = torch.native_dropout(input, p, train)
        return output
    return original(input, p, train)


def _softmax_of_halves(
    kernel: Softmax, original: Callable, input: Tensor, *args, **kwargs
) -> Tensor:
    """Compute a softmax of halves in float32, without a copy of them (SoftMax.cpp)."""
    call = dict(zip(("dim", "dtype"), args, strict=False)) | kwargs
    is_fused = (
        call.keys() == {"dim", "dtype"}
        and call["dtype"] is torch.float32
        and isinstance(call["dim"], int)
        and isinstance(input, Tensor)
        and input.dtype is torch.float16
    )
    if is_fused and _runs_on_gpu(input):
        return kernel.forward(input, call["dim"], True)
    return original(input, *args, **kwargs)


for _kernel in (softmax, log_softmax):
    replaces(
        (torch, torch.special, Tensor),
        _kernel.name,
        overridable=True,
        when=_has_kernels,
    )(partial(_softmax_of_halves, _kernel))
