"""The type to which PyTorch promotes the operands of an elementwise operation.

CUDA's kernels choose their code by it: `iter.common_dtype()` of native/TensorIterator.cpp.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cudasim.dispatch.arguments import all_arguments
from cudasim.torch_private.operators import NumberType, TensorType, schema_of

Operand = Tensor | complex  # or another number of Python

TENSOR_OR_NUMBER = (Tensor, bool, int, float, complex)


def operands_promoted_by(func: Callable, args: tuple, kwargs: dict) -> list[Operand]:
    """Return the tensors and numbers that an operator takes in the place of tensors."""
    named = all_arguments(func, args, kwargs)
    operands = []
    for argument in schema_of(func).arguments:
        is_operand = isinstance(argument.type, NumberType | TensorType)
        if argument.kwarg_only or not is_operand:
            continue
        value = named[argument.name]
        if isinstance(value, TENSOR_OR_NUMBER):
            operands.append(value)
    return operands


def common_dtype(operands: Sequence[Operand]) -> torch.dtype:
    """Return the type to which operands are promoted, of which there is at least one.

    As in native/TypeProperties.cpp tensors with dimensions go before tensors without, and
    these before numbers: those that come later only count if they are of a higher kind.
    Raises RuntimeError, in PyTorch's words, for types that it does not promote.
    """
    if len(operands) == 2:
        return torch.result_type(*operands)  # which takes no other number of them

    # The numbers, the tensors without dimensions, and those with some.
    by_precedence: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        dtype = torch.result_type(operand, operand)
        precedence = 0
        if isinstance(operand, Tensor):
            precedence = 2 if operand.dim() else 1
        earlier = by_precedence[precedence]
        if earlier is not None:
            dtype = torch.promote_types(earlier, dtype)
        by_precedence[precedence] = dtype

    common, *higher_dtypes = [dtype for dtype in by_precedence if dtype is not None]
    for dtype in higher_dtypes:
        with_dimensions = torch.empty(1, dtype=dtype, device="meta")
        without = torch.empty((), dtype=common, device="meta")
        common = torch.result_type(with_dimensions, without)
    return common


def common_float(operands: Sequence[Operand]) -> torch.dtype:
    """Return the same for operators that turn whole numbers into floating-point ones."""
    dtype = common_dtype(operands)
    if dtype.is_floating_point or dtype.is_complex:
        return dtype
    return torch.get_default_dtype()
