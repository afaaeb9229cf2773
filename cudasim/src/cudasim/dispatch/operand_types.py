"""What CUDA says where the operands of a kernel should have the same type.

The CPU has other kernels, with other checks. These layers run when one of them has refused a
call, and raise what CUDA's kernel checks first.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import arguments_by_name
from cudasim.dispatch.checks import BATCH_NORMS, is_cudnn_batch_norm
from cudasim.dispatch.kernel_names import type_on_gpu
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session
from cudasim.words import WORDS

MESSAGES = WORDS["operand types"]
# What PyTorch says of dtypes, on the CPU or, where it has none of that dtype, on CUDA. A wrong
# shape goes first, and has other words.
_OF_DTYPES = re.compile("|".join(MESSAGES["patterns"]))


@layer("convolution", idle=lambda args: True)
def convolution(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Compare types as `check_input_same_type_as_parameters` does (Convolution.cpp)."""
    try:
        return inner(func, args, kwargs)
    except RuntimeError as error:
        image, weight = args[:2]
        if not _is_about_dtypes(error) or not _are_compared(image, weight):
            raise
        types = (type_on_gpu(image.dtype), type_on_gpu(weight.dtype))
        raise RuntimeError(MESSAGES["convolution"].format(*types)) from None


@layer(*BATCH_NORMS, idle=lambda args: True)
def batch_norm(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Compare types as cuDNN's kernel does (native/cudnn/BatchNorm.cpp)."""
    try:
        return inner(func, args, kwargs)
    except RuntimeError as error:
        named = arguments_by_name(func, args, kwargs)
        message = _of_batch_norm(named) if _is_about_dtypes(error) else None
        if message is None:
            raise
        raise RuntimeError(message) from None


def _of_batch_norm(named: dict[str, Any]) -> str | None:
    """Return what cuDNN says of a batch normalization; None if nothing, or if not it."""
    tensors = {}
    for name in ("input", "weight", "bias", "running_mean", "running_var"):
        if isinstance(named.get(name), Tensor):
            tensors[name] = named[name]
    if not session.type.is_cuda or not is_cudnn_batch_norm(tensors):
        return None

    names = list(tensors)
    # Its parameters are float32 where the input is half.
    first = 1 if tensors["input"].dtype is torch.float16 else 0
    for position in range(first + 1, len(names)):
        # The input is compared with the weight, and the weight with all others.
        one, other = names[min(position - 1, 1)], names[position]
        if tensors[one].dtype is not tensors[other].dtype:
            return MESSAGES["batch norm"].format(
                names.index(one) + 1,
                one,
                position + 1,
                other,
                type_on_gpu(tensors[one].dtype),
                type_on_gpu(tensors[other].dtype),
            )
    return None


def _is_about_dtypes(error: RuntimeError) -> bool:
    return _OF_DTYPES.search(str(error)) is not None


def _are_compared(image: Tensor, weight: Tensor) -> bool:
    """Return whether an image and a weight on one GPU differ in what it compares."""
    home = gpu_of(image)
    if home is None or gpu_of(weight) is not home:
        return False
    if session.type.has_cudnn and not torch.backends.cudnn.enabled:
        return False
    return image.dtype is not weight.dtype
