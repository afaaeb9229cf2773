"""Kernels that a program registers for GPUs, of PyTorch's own operators: they go before CUDA's."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import library

from cudasim.dispatch.autocast import overload
from cudasim.dispatch.custom import run_custom
from cudasim.dispatch.operators import RECORD, RULES, Operator, Rule
from cudasim.dispatch.placement import general
from cudasim.patching import replaces
from cudasim.session import session


@replaces(library.Library, "impl")
def impl(
    original: Callable, self: Any, op_name: Any, fn: Callable, *args, **kwargs
) -> None:
    """`Library.impl`. What PyTorch itself registers is for real GPUs."""
    before = set(self._op_impls)
    original(self, op_name, fn, *args, **kwargs)
    if getattr(fn, "__module__", "torch").partition(".")[0] == "torch":
        return
    for key in self._op_impls - before:
        namespace, name, place = key.split("/")
        if (
            namespace == "aten"
            and place == session.type.key
            and (func := overload(name))
        ):
            rule = partial(run, key, RULES.get(func, general))
            session.patches.replace_item(RULES, func, rule)
            session.patches.replace(func, RECORD, Operator(func))


def run(key: str, usual: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run the kernel called `key`; once its library is gone, what runs as a rule."""
    return (run_custom if key in library._impls else usual)(func, args, kwargs)
