"""The memory that a transformer's layer needs between its kernels, without gradients.

PyTorch computes such a layer, and attention, by one operator whose C++ calls others. The CPU's
operator is called as a whole, so what CUDA's allocates on the way is taken here and given back.
The files named below are in aten/src/ATen/native/transformers of PyTorch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU, Allocation
from cudasim.dispatch.arguments import all_arguments
from cudasim.dispatch.operators import rule
from cudasim.dispatch.placement import general
from cudasim.dispatch.tags import gpu_of, is_on_cuda
from cudasim.torch_private import operators


@rule(operators.encoder_layer)
def encoder_layer(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Take what `transformer_encoder_layer_forward` in transformer.cpp allocates."""
    named = all_arguments(func, args, kwargs)
    src = named["src"]
    if not _is_dense_on_cuda(src):
        return general(func, args, kwargs)

    gpu = gpu_of(src)
    size = src.nbytes
    norm_first = named["norm_first"]
    normed = Allocation(gpu, size) if norm_first else None
    attended = _attend(gpu, src, named["num_heads"], named["mask"], fuses=True)
    del normed

    normed = Allocation(gpu, size)
    if not norm_first:
        del attended  # the result of the norm takes its place
    hidden = _rows(src) * named["ffn_weight_1"].shape[0] * src.element_size()
    between = Allocation(gpu, hidden)
    result = Allocation(gpu, size)
    del normed, between, result
    if norm_first:
        del attended
    return general(func, args, kwargs)


@rule(operators.multi_head_attention)
def attention(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Take what `native_multi_head_attention_cuda` in cuda/attention.cu allocates."""
    named = all_arguments(func, args, kwargs)
    query = named["query"]
    if not _is_dense_on_cuda(query):
        return general(func, args, kwargs)

    is_of_itself = query is named["key"] and query is named["value"]
    fuses = is_of_itself and not named["need_weights"]
    heads = named["num_head"]
    result = _attend(gpu_of(query), query, heads, named["mask"], fuses)
    del result  # which the rule takes again
    return general(func, args, kwargs)


def _is_dense_on_cuda(tensor: Tensor) -> bool:
    return is_on_cuda(tensor) and not tensor.is_nested and tensor.dim() == 3


def _rows(tensor: Tensor) -> int:
    return tensor.shape[0] * tensor.shape[1]


def _attend(
    gpu: GPU, query: Tensor, heads: int, mask: Tensor | None, fuses: bool
) -> Allocation:
    """Take and give back what attention needs on the way, and return its result's memory.

    It takes a kernel of `scaled_dot_product_attention` if it `fuses`, there is no mask, and
    one of these kernels has the dtype.
    """
    size = query.nbytes
    projected = Allocation(gpu, 3 * size)
    width = query.shape[2] // heads
    if fuses and mask is None and width % 8 == 0 and query.dtype is not torch.float64:
        context = Allocation(gpu, size)
        result = Allocation(gpu, size)
        del projected, context
        return result

    biased = Allocation(gpu, 3 * size)
    del projected
    batch, length, _ = query.shape
    weights = batch * heads * length * length * query.element_size()
    scores = Allocation(gpu, weights)
    shares = Allocation(gpu, weights)  # the softmax of the scores
    del scores
    # The sums of values are written over the queries.
    transposed = Allocation(gpu, size)
    result = Allocation(gpu, size)
    del biased, shares, transposed
    return result
