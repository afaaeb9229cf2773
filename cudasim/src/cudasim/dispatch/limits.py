"""Limits that numbers of 16 bits cannot hold: CUDA compares in float32 (TensorCompare.cu).

So `half.clamp(min=-1e9)` computes on a GPU. The CPU's kernels hold a limit in the type of the
tensor, and refuse it.
"""

import re
from collections.abc import Callable
from typing import Any

import torch

from cudasim.dispatch.arguments import map_leaves, operands_of
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session

CLAMPS = ("clamp", "clamp_min", "clamp_max", "hardtanh")
CLAMPS_OF_LISTS = ("_foreach_clamp_min", "_foreach_clamp_max")
_OVERFLOW = re.compile(
    r"value cannot be converted to type c10::(Half|BFloat16) without overflow"
)
_DTYPES = {"Half": torch.float16, "BFloat16": torch.bfloat16}


@layer(*CLAMPS, *CLAMPS_OF_LISTS, idle=lambda args: True)
def clamp(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Round limits as CUDA rounds results: one that is too large becomes infinite."""
    try:
        return inner(func, args, kwargs)
    except RuntimeError as error:
        overflow = _OVERFLOW.search(str(error))
        is_on_gpu = any(map(gpu_of, operands_of(args, kwargs)))
        if overflow is None or not is_on_gpu or not session.type.is_cuda:
            raise
        dtype = _DTYPES[overflow[1]]

    def round_limit(leaf: Any) -> Any:
        if not isinstance(leaf, int | float):
            return leaf
        return torch.tensor(leaf, dtype=torch.float32).to(dtype).item()

    args, kwargs = map_leaves(round_limit, (args, kwargs))
    return inner(func, args, kwargs)
