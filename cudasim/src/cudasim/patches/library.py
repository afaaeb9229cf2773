"""Kernels that a program registers for GPUs, of PyTorch's own operators.

They go before CUDA's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch.library import Library

from cudasim.dispatch.autocast import overload
from cudasim.dispatch.custom import run_custom
from cudasim.dispatch.operators import RECORD, RULES, Operator, Rule
from cudasim.dispatch.placement import general
from cudasim.patching import replaces
from cudasim.session import session
from cudasim.torch_private.operators import all_kernels, kernels_of


@replaces(Library, "impl")
def impl(
    original: Callable, self: Library, op_name: Any, fn: Callable, *args, **kwargs
) -> None:
    """Register a kernel. What PyTorch itself registers is for real GPUs."""
    before = set(kernels_of(self))
    original(self, op_name, fn, *args, **kwargs)

    package = getattr(fn, "__module__", "torch").partition(".")[0]
    if package != "torch":
        for key in kernels_of(self) - before:
            _run_as_rule(key)


def _run_as_rule(key: str) -> None:
    """Let the kernel called `key` (`aten/add.Tensor/CUDA`) run in the place of its rule."""
    namespace, name, dispatch_key = key.split("/")
    if namespace != "aten" or dispatch_key != session.type.key:
        return
    func = overload(name)
    if func is not None:
        rule = partial(run, key, RULES.get(func, general))
        session.patches.replace_item(RULES, func, rule)
        session.patches.replace(func, RECORD, Operator(func))


def run(key: str, usual_rule: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run the kernel called `key`; once its library is gone, what usually runs."""
    if key in all_kernels:
        return run_custom(func, args, kwargs)
    return usual_rule(func, args, kwargs)
