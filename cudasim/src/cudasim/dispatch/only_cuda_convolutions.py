"""Convolutions under the names of cuDNN's and CUDA's kernels.

They compute what `convolution` computes, and their last arguments only choose a kernel.
"""

from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.operators import substitute
from cudasim.dispatch.substitutes import write
from cudasim.dispatch.tags import gpu_of
from cudasim.torch_private import operators as private
from cudasim.words import WORDS

aten = torch.ops.aten
Sizes = list[int]
AMPERE = (8, 0)  # the least capability for which cuDNN has convolutions of bfloat16


@substitute(aten.cudnn_convolution.default, aten.cudnn_convolution.out)
def convolve(
    image: Tensor,
    weight: Tensor,
    padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    groups: int,
    *choice: bool,
    out: Tensor | None = None,
) -> Tensor:
    """Compute a convolution without a bias."""
    _check_type(image)
    result = _convolve(image, weight, None, stride, padding, dilation, groups)
    return write(result, out)


@substitute(aten.cudnn_convolution_transpose.default)
def convolve_transposed(
    image: Tensor,
    weight: Tensor,
    padding: Sizes,
    output_padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    groups: int,
    *choice: bool,
) -> Tensor:
    """Compute a transposed convolution."""
    _check_type(image)
    return aten.convolution.default(
        image,
        weight,
        None,  # bias
        stride,
        padding,
        dilation,
        True,  # transposed
        output_padding,
        groups,
    )


def _check_type(image: Tensor) -> None:
    """Raise cuDNN's error where it has no kernel, as PyTorch's test_cuda.py expects.

    See `test_autocast_torch_bf16`; the words are those of cudnn/Conv_v8.cpp.
    """
    gpu = gpu_of(image)
    if gpu and image.dtype is torch.bfloat16 and gpu.card.capability < AMPERE:
        raise RuntimeError(WORDS["functions"]["no engine"])


@substitute(aten.cudnn_convolution_relu.default)
def convolve_and_clamp(
    image: Tensor, weight: Tensor, bias: Tensor | None, *arguments: Any
) -> Tensor:
    """Compute a convolution and clamp it at zero."""
    return _convolve(image, weight, bias, *arguments).relu()


@substitute(aten.cudnn_convolution_add_relu.default)
def convolve_add_and_clamp(
    image: Tensor,
    weight: Tensor,
    addend: Tensor,
    alpha: float | None,
    bias: Tensor | None,
    *arguments: Any,
) -> Tensor:
    """Compute a convolution, add a tensor, and clamp the sum at zero."""
    factor = 1 if alpha is None else alpha
    convolved = _convolve(image, weight, bias, *arguments)
    return convolved.add(addend, alpha=factor).relu()


@substitute(
    private.conv_depthwise2d,
    private.conv_depthwise2d_out,
    aten.conv_depthwise3d.default,
)
def convolve_each_channel(
    image: Tensor,
    weight: Tensor,
    kernel_size: Sizes,
    bias: Tensor | None,
    *arguments: Any,
    out: Tensor | None = None,
) -> Tensor:
    """Compute a convolution of each channel by itself."""
    channels = image.shape[1]
    result = _convolve(image, weight, bias, *arguments, channels)
    return write(result, out)


def _convolve(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    output_padding = [0] * len(stride)
    return aten.convolution.default(
        image, weight, bias, stride, padding, dilation, False, output_padding, groups
    )
