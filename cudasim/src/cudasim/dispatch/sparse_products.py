"""Products with sparse matrices of 16 bits, for which the CPU has no kernel.

cuSPARSE adds up in float32 and rounds once (native/sparse/cuda/SparseBlasImpl.cpp and
SparseMatMul.cu).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import map_tensors, operands_of
from cudasim.dispatch.dtypes import AMPERE, COMPRESSED
from cudasim.dispatch.operators import Rule, layer
from cudasim.dispatch.tags import gpu_of, is_scratch, put
from cudasim.session import session

PRODUCTS = ("mm", "addmm", "mv", "addmv", "_sparse_addmm", "_sparse_sparse_matmul")


# No tensor of the short way is sparse.
@layer(*PRODUCTS, idle=lambda args: True)
def multiply(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Multiply in float32 where the CPU's kernel takes no numbers of 16 bits."""
    operands = operands_of(args, kwargs)
    narrow = operands[0].dtype
    gpu = next((gpu for gpu in map(gpu_of, operands) if gpu is not None), None)
    if gpu is None or not session.type.is_cuda or "out" in kwargs:
        return inner(func, args, kwargs)
    if not _is_multiplied(operands, narrow, gpu):
        return inner(func, args, kwargs)

    def widened(tensor: Tensor) -> Tensor:
        home = gpu if is_scratch(tensor) else gpu_of(tensor)
        return put(tensor.float(), home)

    args, kwargs = map_tensors(widened, (args, kwargs))
    wide = inner(func, args, kwargs)
    return put(wide.to(narrow), gpu)


def _is_multiplied(operands: list[Tensor], narrow: torch.dtype, gpu: GPU) -> bool:
    """Return whether CUDA multiplies `operands`, all of the dtype `narrow`, and not the CPU."""
    layouts = {tensor.layout for tensor in operands}
    if layouts != {torch.sparse_coo} and layouts.isdisjoint(COMPRESSED):
        return False
    if any(tensor.dtype is not narrow for tensor in operands):
        return False
    if narrow is torch.bfloat16:
        return gpu.card.capability >= AMPERE
    return narrow is torch.float16
