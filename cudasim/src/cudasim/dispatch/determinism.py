"""`torch.use_deterministic_algorithms`: what has no deterministic kernel on CUDA is refused.

By the names of kernels that PyTorch's own tests expect (`check_nondeterministic_alert`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import alert_not_deterministic

from cudasim.dispatch.arguments import given
from cudasim.dispatch.autocast import overload
from cudasim.dispatch.operators import Rule, around
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of


def _sums_floats(given: dict) -> bool:
    dtype = given.get("dtype") or given["self"].dtype
    return dtype.is_floating_point or dtype.is_complex


def _multiplies(given: dict) -> bool:
    return given["reduce"] == "prod"


# Operation -> its kernel, and for which arguments it is not deterministic.
SOMETIMES = {
    "nll_loss2d_forward": (
        "nll_loss2d_forward_out_cuda_template",
        lambda given: given["reduction"] != 0,
    ),
    "_embedding_bag_backward": (
        "embedding_bag_backward_cuda_max",
        lambda given: given["mode"] == 2,
    ),
    "put_": ("put_", lambda given: given.get("accumulate")),  # else the CPU refuses it too
    "histc": ("_histc_cuda with floating point input", _sums_floats),
    "bincount": ("_bincount_cuda", lambda given: given.get("weights") is not None),
    "cumsum": ("cumsum_cuda_kernel", _sums_floats),
    "cumsum_": ("cumsum_cuda_kernel", _sums_floats),
    "scatter_reduce.two": ("scatter_reduce_cuda_kernel", _multiplies),
    "scatter_reduce_.two": ("scatter_reduce_cuda_kernel", _multiplies),
}
KERNELS = {
    overload(name): kernel if isinstance(kernel, tuple) else (kernel, None)
    for name, kernel in {**TABLES["nondeterministic"], **SOMETIMES}.items()
}


@around(*KERNELS)
def deterministic(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Refuse what no GPU can do the same twice, or warn, if the program asks for that."""
    if torch._C._get_deterministic_algorithms():
        name, matters = KERNELS[func]
        first = next((each for each in args if isinstance(each, Tensor)), None)
        on_gpu = first is not None and gpu_of(first) is not None
        if on_gpu and (matters is None or matters(given(func, args, kwargs))):
            alert_not_deterministic(name)
    return inner(func, args, kwargs)
