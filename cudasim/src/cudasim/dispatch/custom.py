"""Operators that are not PyTorch's own, and operators that take functions.

A program's own operators run by the kernels that are registered for them. The operations
within both kinds run on simulated devices.
"""

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from cudasim.dispatch.absent import deciding_layout
from cudasim.dispatch.arguments import operands_of
from cudasim.dispatch.devices import in_fake_mode, resolve
from cudasim.dispatch.operators import RULE_FINDERS, Rule
from cudasim.dispatch.placement import as_tensors, make_on, run
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of
from cudasim.modes import decompose, is_composite
from cudasim.session import session
from cudasim.torch_private.dispatch import DispatchKey, DispatchKeySet
from cudasim.torch_private.operators import HigherOrderOperator, OpOverload
from cudasim.words import WORDS

# Namespaces of PyTorch's own operators, except those with few kernels for CUDA or none, as
# `quantized` and `mkldnn`; and of C++ libraries with kernels for CUDA, which their builds
# for the CPU leave out.
NAMESPACES = frozenset(TABLES["namespaces"])

# Operators that compute with tensors themselves. Others only call functions they are given.
COMPUTING = ("flex_attention", "flex_attention_backward")

OPERATORS = (OpOverload, HigherOrderOperator)

TRITON = (
    "triton_kernel_wrapper"  # what the names of operators that run Triton's begin with
)


def rule_of(func: Callable) -> Rule | None:
    """Return how `func` runs if it is not PyTorch's own, or is made of others; else None."""
    if isinstance(func, HigherOrderOperator):
        return run_with_functions
    if isinstance(func, OpOverload) and func.namespace not in NAMESPACES:
        return run_custom
    return run_decomposed if is_composite(func) else None


RULE_FINDERS.append(rule_of)


def run_custom(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a program's own operator, on GPUs by its kernel for them.

    PyTorch's dispatcher raises an error if there is none.
    """
    operands = operands_of(args, kwargs)
    if any(gpu_of(tensor) for tensor in operands):
        return run_cuda_kernel(func, args, kwargs)
    device = kwargs.get("device")
    if device is not None and device.type == session.type.name:
        return make_on(resolve(device), func, args, kwargs)
    return run(func, args, kwargs, operands)


def run_cuda_kernel(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run the kernel that is registered for the simulated type of device and the layout."""
    key = session.type.key
    if session.type.is_cuda:
        key = f"{deciding_layout(operands_of(args, kwargs))}{key}"
    keys = DispatchKeySet(getattr(DispatchKey, key))
    redispatch = _in_mode(func.redispatch)
    return _booked(redispatch(keys, *as_tensors(func, args), **kwargs))


def run_decomposed(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """Run the operators that `func` is made of, as autograd does outside inference mode."""
    operands = operands_of(args, kwargs)
    if any(tensor.is_nested for tensor in operands):
        return run(
            func, args, kwargs, operands
        )  # nested tensors have kernels of their own
    return _booked(decompose(type(session.mode)(), func, args, kwargs))


def run_with_functions(func: HigherOrderOperator, args: tuple, kwargs: dict) -> Any:
    """Run an operator whose arguments are functions, as `torch.cond`.

    Those that are given an operator, as `auto_functionalized_v2` for one that mutates its
    arguments (torch/_higher_order_ops/auto_functionalize.py), check that it is one.
    """
    if in_fake_mode():  # it is traced, functions and all
        return func(*args, **kwargs)
    if func.name().startswith(TRITON):
        raise NotImplementedError(WORDS["compiler"]["triton"])
    given = (*args, *kwargs.values())
    takes_operator = any(isinstance(value, OPERATORS) for value in given)
    kernel = func.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    if kernel is not None and (takes_operator or func.name() in COMPUTING):
        return _booked(_in_mode(kernel)(*args, **kwargs))
    args = [_in_mode(value) for value in args]
    kwargs = {name: _in_mode(value) for name, value in kwargs.items()}
    return _booked(func(*args, **kwargs))


def _in_mode(value: Any) -> Any:
    """Return `value`, or if it is a function, one that runs in a simulating mode."""
    if not callable(value) or isinstance(value, Tensor):
        return value

    @functools.wraps(value, updated=())
    def run_in_mode(*args: Any, **kwargs: Any) -> Any:
        with type(session.mode)():
            return value(*args, **kwargs)

    return run_in_mode


def _booked(out: Any) -> Any:
    """Return the result of an operator whose cost was booked with what ran within it."""
    session.thread.skip_next_booking = session.clock is not None
    return out
