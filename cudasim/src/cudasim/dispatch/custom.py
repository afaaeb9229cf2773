"""Operators of others than PyTorch, by the kernels registered for them, and operators that take
functions. Within both, operations have devices."""

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch._ops import HigherOrderOperator, OpOverload

from cudasim.dispatch.arguments import tensors_in
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.operators import KINDS
from cudasim.dispatch.placement import as_tensors, make_on, run
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of
from cudasim.modes import decompose, is_composite
from cudasim.session import session

# Namespaces of PyTorch's own operators, but for `quantized`, which has few kernels for CUDA; and
# libraries in C++ that have kernels for CUDA, which their builds for the CPU leave out.
NAMESPACES = frozenset(TABLES["namespaces"])
# Operators whose kernel computes with tensors itself; others leave that to functions they take.
COMPUTING = ("flex_attention", "flex_attention_backward")


def rule_of(func: Callable) -> Callable | None:
    """How `func` runs, if it is a program's own operator or takes functions; else None."""
    if isinstance(func, HigherOrderOperator):
        return run_with_functions
    if isinstance(func, OpOverload) and func.namespace not in NAMESPACES:
        return run_custom
    return decomposed if is_composite(func) else None


KINDS.append(rule_of)


def run_custom(func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run a program's own operator: on GPUs the kernel for them; the dispatcher says if none is."""
    operands = tensors_in((*args, *kwargs.values()))
    if any(gpu_of(tensor) for tensor in operands):
        return on_gpu(func, args, kwargs)
    device = kwargs.get("device")
    if device is not None and device.type == session.type.name:
        return make_on(resolve(device), func, args, kwargs)
    return run(func, args, kwargs, operands)


def on_gpu(func: Callable, args: tuple, kwargs: dict) -> Any:
    keys = DispatchKeySet(getattr(DispatchKey, session.type.key))
    return _booked(_seen(func.redispatch)(keys, *as_tensors(func, args), **kwargs))


def decomposed(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """Run the operators that `func` is made of, as autograd does outside of inference mode."""
    return _booked(decompose(type(session.mode)(), func, args, kwargs))


def run_with_functions(func: HigherOrderOperator, args: tuple, kwargs: dict) -> Any:
    if func.name() in COMPUTING:
        kernel = func.py_kernels[DispatchKey.CompositeExplicitAutograd]
        return _booked(_seen(kernel)(*args, **kwargs))
    given = {name: _seen(value) for name, value in kwargs.items()}
    return _booked(func(*map(_seen, args), **given))


def _seen(value: Any) -> Any:
    """If `value` is a function: one whose operations go through the simulation's mode."""
    if not callable(value) or isinstance(value, Tensor):
        return value

    @functools.wraps(value, updated=())
    def seen(*args: Any, **kwargs: Any) -> Any:
        with type(session.mode)():
            return value(*args, **kwargs)

    return seen


def _booked(out: Any) -> Any:
    """The result of an operator whose cost is that of the operations within it."""
    session.thread.met = session.clock is not None
    return out
