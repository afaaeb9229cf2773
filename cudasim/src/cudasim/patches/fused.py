"""Functions for which C++ chooses one kernel on CUDA, where the CPU takes several.

C++ reads a tensor's device itself, before any dispatch mode sees an operation. So these
functions are replaced. The files named below are in aten/src/ATen/native of PyTorch.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

from cudasim.dispatch.autocast import casts
from cudasim.dispatch.layouts import CHANNELS_LAST
from cudasim.dispatch.tags import gpu_of
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private import tensors as private
from cudasim.torch_private.dispatch import (
    DispatchKey,
    DispatchKeySet,
    in_transform,
    is_tracing,
)
from cudasim.torch_private.operators import (
    Softmax,
    destroy,
    fused_rms_norm,
    log_softmax,
    softmax,
)

# What a call passes: autograd for a type of device that is never used, then a dispatch mode.
KEYS_OF_NOWHERE = (
    DispatchKeySet(DispatchKey.PythonTLSSnapshot)
    | DispatchKeySet(DispatchKey.AutogradXPU)
    | DispatchKeySet(DispatchKey.Python)
)


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


@replaces(torch, "rms_norm", overridable=True, when=_has_kernels)
def rms_norm(
    original: Callable,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Normalize with one kernel, which keeps a number for each row (layer_norm.cpp)."""
    # Autocast calls this function again, with what it has cast.
    is_cast = torch.is_autocast_enabled(session.type.name) and casts("rms_norm")
    is_fused = (
        any(map(_runs_on_gpu, (input, weight)))
        and not is_cast
        and _has_fused_rms_norm(input, tuple(normalized_shape), weight)
    )
    if not is_fused:
        return original(input, normalized_shape, weight, eps)
    kernel = _rms_norm_with_gradients()
    output, _ = kernel(input, normalized_shape, weight, eps)
    return output


def _has_fused_rms_norm(
    input: Tensor, shape: tuple[int, ...], weight: Tensor | None
) -> bool:
    """Return whether C++ takes the fused kernel, and has nothing to refuse."""
    if not shape or input.shape[-len(shape) :] != shape or input.is_complex():
        return False
    if weight is not None:
        if weight.shape != shape or weight.dtype != input.dtype:
            return False
    last = CHANNELS_LAST.get(input.dim())
    if last is None or input.is_contiguous():
        return True
    return not input.is_contiguous(memory_format=last)


@cache
def _rms_norm_with_gradients() -> Callable:
    """Return the fused operator with its gradients.

    On the CPU autograd has no kernel for it, as it is several other operators there. For a
    type of device with a kernel of its own it has one: so one that is never used gets it.
    """
    library = Library("aten", "IMPL", DispatchKey.XPU.name)
    library.impl(fused_rms_norm, _run_nowhere)
    session.patches.finally_do(_forget, library)
    return partial(fused_rms_norm.redispatch, KEYS_OF_NOWHERE)


def _run_nowhere(*args: Any) -> None:
    raise AssertionError("there is no tensor on such a device")


def _forget(library: Library) -> None:
    destroy(library)
    _rms_norm_with_gradients.cache_clear()
