"""Products with compressed sparse matrices of 16 bits, for which the CPU has no kernel.

cuSPARSE adds up in float32 and rounds once (native/sparse/cuda/SparseBlasImpl.cpp).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.arguments import map_tensors, operands_of
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tags import gpu_of, put
from cudasim.session import session

COMPRESSED = (
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
)
AMPERE = (8, 0)  # the first cards with products of bfloat16


# No tensor of the short way is sparse.
@layer("mm", "addmm", "mv", "addmv", idle=lambda args: True)
def multiply(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Multiply in float32 where the CPU's kernel takes no numbers of 16 bits."""
    operands = operands_of(args, kwargs)
    narrow = operands[0].dtype
    if not _is_multiplied(operands, narrow) or "out" in kwargs:
        return inner(func, args, kwargs)
    args, kwargs = map_tensors(_widened, (args, kwargs))
    wide = inner(func, args, kwargs)
    return put(wide.to(narrow), gpu_of(wide))


def _widened(tensor: Tensor) -> Tensor:
    return put(tensor.float(), gpu_of(tensor))


def _is_multiplied(operands: list[Tensor], narrow: torch.dtype) -> bool:
    """Return whether CUDA multiplies `operands`, all of the dtype `narrow`, and not the CPU."""
    gpu = gpu_of(operands[0])
    if gpu is None or not session.type.is_cuda:
        return False
    if not any(tensor.layout in COMPRESSED for tensor in operands):
        return False
    if any(tensor.dtype is not narrow for tensor in operands):
        return False
    if narrow is torch.bfloat16:
        return gpu.card.capability >= AMPERE
    return narrow is torch.float16
