"""The base of the package's dispatch modes."""

from collections.abc import Callable
from typing import Any

from cudasim.torch_private.dispatch import (
    DispatchKey,
    TorchDispatchMode,
    has_any_kernel,
    has_kernel,
)
from cudasim.torch_private.operators import OpOverload, call_kernel

COMPOSITE = "CompositeImplicitAutograd"


class LightMode(TorchDispatchMode):
    """A dispatch mode whose first operation does not import `torch._dynamo`.

    That import takes a second.
    """

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compile code as if the mode were not there; what was compiled runs within it."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch calls it; `tests/test_compile.py` fails when that changes.
        return False


def is_composite(func: Callable) -> bool:
    """Return whether autograd would take `func` apart.

    In inference mode it does not, and leaves that to the dispatch modes.
    """
    if not isinstance(func, OpOverload):
        return False
    if not has_any_kernel(func.name()):
        return False  # an operator of TorchScript
    return has_kernel(func.name(), COMPOSITE) and not has_kernel(func.name(), "CPU")


def decompose(
    mode: TorchDispatchMode,
    func: OpOverload,
    args: tuple,
    kwargs: dict,
    key: str = COMPOSITE,
) -> Any:
    """Run the operations that C++ makes of `func` in sight of `mode`.

    `key` is that of the kernel which calls them. `func.decompose` would give those that the
    compiler makes of it.
    """
    TorchDispatchMode.__enter__(mode)
    try:
        return call_kernel(func, getattr(DispatchKey, key), args, kwargs)
    finally:
        TorchDispatchMode.__exit__(mode, None, None, None)
