"""The dtypes that CUDA's kernels for lists of tensors refuse.

Tensors that are alike go to a kernel for lists, others one by one to the kernels for single
tensors. The rules are those of native/ForeachUtils.h and native/cuda/Foreach*.cu in ATen.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.kernel_names import kernels, refusal
from cudasim.dispatch.operators import base_name
from cudasim.session import session

# The kernels of operators that take integers as they are. A name ends in `_` if the operator
# works in place; some always do.
KERNELS = {
    "_foreach_add": "foreach_binary_op_{form}_cuda{place}",
    "_foreach_sub": "foreach_binary_op_{form}_cuda{place}",
    "_foreach_mul": "foreach_binary_op_{form}_cuda{place}",
    "_foreach_neg": "foreach_unary_op_cuda{place}",
    "_foreach_abs": "foreach_unary_op_cuda",
    "_foreach_zero": "foreach_zero_cuda_",
    "_foreach_max": "foreach_tensor_max_cuda_scalar_type",
}
IN_PLACE_BY_MISTAKE = ("_foreach_sub", "ScalarList")  # its name, not what it does
FORMS = {
    "List": "list",
    "ScalarList": "scalarlist",
    "Scalar": "scalar",
    "Tensor": "scalar",
}
NUMBERS = (int, float, complex)


def check_types(func: Callable, lists: list[list[Tensor]], others: list[Any]) -> None:
    """Refuse, as CUDA's kernel would, the dtype of `lists` of tensors on a GPU.

    The `others` are the arguments that are no lists of tensors.
    """
    first = lists[0][0]
    kernel = _kernel(func)
    if kernel is None or not session.type.is_cuda:
        return
    if str(first.dtype).removeprefix("torch.") in kernels()["kernels"][kernel]:
        return
    if _are_alike(lists) and _keep_type(first, others):
        raise refusal(kernel, first.dtype)


@functools.cache
def _kernel(func: Callable) -> str | None:
    name, _, overload = str(func).rpartition(".")
    operator = base_name(func)
    if operator not in KERNELS:
        return None
    is_in_place = name.endswith("_") or (operator, overload) == IN_PLACE_BY_MISTAKE
    place = "_" if is_in_place else ""
    return KERNELS[operator].format(form=FORMS.get(overload, ""), place=place)


def _are_alike(lists: list[list[Tensor]]) -> bool:
    """Return whether all have one dtype, and those of one position one dense shape."""
    dtype = lists[0][0].dtype
    for position in zip(*lists, strict=False):
        first = position[0]
        if first.layout is not torch.strided:
            return False
        is_dense = torch.empty_like(first).stride() == first.stride()
        shape = (dtype, first.shape, first.stride())
        for tensor in position:
            if not is_dense or (tensor.dtype, tensor.shape, tensor.stride()) != shape:
                return False
    return True


def _keep_type(first: Tensor, others: list[Any]) -> bool:
    """Return whether the numbers beside the lists leave their dtype as it is."""
    for value in others:
        if isinstance(value, list | tuple):
            if not _keep_type(first, value):
                return False
        elif isinstance(value, (*NUMBERS, Tensor)):
            if torch.result_type(first, value) != first.dtype:
                return False
    return True
