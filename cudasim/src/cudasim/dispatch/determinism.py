"""`torch.use_deterministic_algorithms`: what has no deterministic kernel on CUDA is refused. By the
names of kernels that PyTorch's own tests expect (`check_nondeterministic_alert`)."""

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


# Operation -> for which arguments its kernel is not deterministic; that of others never is.
MATTERS: dict[str, Callable[[dict], Any]] = {
    "nll_loss2d_forward": lambda given: given["reduction"] != 0,
    "_embedding_bag_backward": lambda given: given["mode"] == 2,  # the maximum
    "put_": lambda given: given.get(
        "accumulate"
    ),  # else PyTorch refuses it on the CPU as well
    "bincount": lambda given: given.get("weights") is not None,
    "scatter_reduce.two": lambda given: given["reduce"] == "prod",
    "scatter_reduce_.two": lambda given: given["reduce"] == "prod",
    **dict.fromkeys(("histc", "cumsum", "cumsum_"), _sums_floats),
}
KERNELS = {
    overload(name): (kernel, MATTERS.get(name, lambda given: True))
    for name, kernel in TABLES["nondeterministic"].items()
}


@around(*KERNELS, idle=lambda args: not torch._C._get_deterministic_algorithms())
def deterministic(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    if torch._C._get_deterministic_algorithms():
        name, matters = KERNELS[func]
        first = next((each for each in args if isinstance(each, Tensor)), None)
        if first is not None and gpu_of(first) and matters(given(func, args, kwargs)):
            alert_not_deterministic(name)
    return inner(func, args, kwargs)
