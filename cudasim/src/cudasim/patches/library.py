"""Kernels that a program registers for GPUs, of PyTorch's own operators: they go before CUDA's."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch import library

from cudasim.dispatch.autocast import overload
from cudasim.dispatch.custom import run_custom
from cudasim.dispatch.operators import OPERATORS, OWN, Operator, Rule
from cudasim.dispatch.placement import general
from cudasim.patching import Patches
from cudasim.session import session


def patch_library(patches: Patches) -> None:
    """Run what has been registered, and what will be."""
    take(library._impls)
    patches.wrap(library.Library, "impl", impl)


def impl(original: Callable, self: library.Library, *args: Any, **kwargs: Any) -> None:
    """`Library.impl`."""
    before = set(self._op_impls)
    original(self, *args, **kwargs)
    take(self._op_impls - before)


def take(keys: Iterable[str]) -> None:
    """Run the kernels called `keys`, namespace/operator/place, as long as they are there."""
    for key in [key for key in keys if key.endswith(f"/{session.type.key}")]:
        namespace, name, _ = key.split("/")
        if namespace == "aten" and (func := overload(name)):
            rule = partial(run, key, OWN.get(func, general))
            session.patches.replace_item(OWN, func, rule)
            session.patches.replace_item(OPERATORS, id(func), Operator(func))


def run(key: str, usual: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Run the kernel called `key`; once its library is gone, what runs as a rule."""
    return (run_custom if key in library._impls else usual)(func, args, kwargs)
