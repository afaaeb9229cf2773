"""Kernels that PyTorch has for one of the CPU and CUDA, and not for the other.

The CPU's kernels compute for simulated GPUs, so both kinds need care. An operator that
only the CPU has would run on a GPU; it is refused with the dispatcher's own error. An
operator that only CUDA has fails because the CPU has no kernel; `kernel_names` gives the
error, which would blame the CPU, other words.

A tensor's layout chooses among kernels too: of `max`, say, CUDA has one for dense tensors
and none for quantized ones. The kernels are named by dispatch keys, `QuantizedCUDA` for
instance, and the key without its `CUDA` stands for the layout here.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import operands_of
from cudasim.dispatch.native_functions import backends_of
from cudasim.dispatch.operators import LAYER_FINDERS, RULES, Layer, Rule
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session
from cudasim.torch_private.dispatch import (
    DispatchKey,
    DispatchKeySet,
    has_any_kernel,
    runs_on,
)
from cudasim.torch_private.operators import OpOverload

DENSE = ""
# Where tensors of several layouts meet, the last of them chooses the kernel
# (c10/core/DispatchKey.h).
LAYOUTS = (DENSE, "Quantized", "Sparse", "SparseCsr", "NestedTensor")

# Operators that are not refused, although CUDA has no kernel for dense tensors.
NOT_REFUSED = (
    # C++ calls them within others, as it believes all tensors to be on the CPU.
    "aten::mkldnn_rnn_layer",
    "aten::mkldnn_rnn_layer_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    # Traced graphs contain it. Inductor generates code for it; `aot_eager`, which runs such
    # graphs here, calls the operator.
    "aten::_functional_assert_async.msg",
    # The dtype of the result chooses the kernel, which is `QuantizedCUDA`.
    "aten::_empty_affine_quantized",
    "aten::_empty_per_channel_affine_quantized",
)


@functools.cache
def absent_layouts(func: Callable) -> frozenset[str]:
    """Return the layouts for which the CPU has a kernel of `func` and CUDA has none.

    Composite kernels serve both. The kernels of other libraries, and those that programs
    register, are the dispatcher's to look up: see `custom`.
    """
    if not isinstance(func, OpOverload) or func.namespace != "aten":
        return frozenset()
    name = func.name()
    # An operator of TorchScript has no kernels.
    if name in NOT_REFUSED or not has_any_kernel(name):
        return frozenset()

    generated = backends_of(name)
    absent = set()
    for layout in LAYOUTS:
        key = f"{layout}CUDA"
        on_cuda = key in generated or runs_on(name, key)
        if runs_on(name, f"{layout}CPU") and not on_cuda:
            absent.add(layout)
    return frozenset(absent)


def refuse(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Refuse tensors on a GPU, or a factory of one, if CUDA has no kernel for the layout."""
    operands = operands_of(args, kwargs)
    if session.type.is_cuda and _runs_on_gpu(operands, kwargs):
        layout = deciding_layout(operands)
        if layout in absent_layouts(func):
            keys = DispatchKeySet(getattr(DispatchKey, f"{layout}CUDA"))
            return func.redispatch(keys, *args, **kwargs)  # raises the error
    return inner(func, args, kwargs)


def deciding_layout(operands: Iterable[Tensor]) -> str:
    """Return the layout among those of the operands that chooses the kernel."""
    return max(map(_layout_of, operands), key=LAYOUTS.index, default=DENSE)


def _runs_on_gpu(operands: Iterable[Tensor], kwargs: dict) -> bool:
    device = kwargs.get("device")
    if device is not None and device.type == session.type.name:
        return True
    return any(map(gpu_of, operands))


def _layout_of(tensor: Tensor) -> str:
    if tensor.is_nested:
        return "NestedTensor"
    if tensor.is_quantized:
        return "Quantized"
    if tensor.layout is torch.strided:
        return DENSE
    return "Sparse" if tensor.layout is torch.sparse_coo else "SparseCsr"


@LAYER_FINDERS.append
def _find_layer(func: Callable) -> Layer | None:
    """Return the layer that refuses an operator; None if it has a rule of its own.

    Such a rule decides itself what runs for a GPU.
    """
    if func in RULES:
        return None
    absent = absent_layouts(func)
    if not absent:
        return None
    is_idle = _never_idle if DENSE in absent else _is_first_dense
    return Layer(frozenset([func]), refuse, is_idle)


def _never_idle(args: tuple) -> bool:
    return False


def _is_first_dense(args: tuple) -> bool:
    """Return whether the first argument is dense.

    In the short way, which asks this, the other operands have the layout of the first.
    """
    first = args[0]
    return not (first.is_quantized or first.is_nested)
