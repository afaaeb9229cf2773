"""The base of the package's dispatch modes."""

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

COMPOSITE = "CompositeImplicitAutograd"


class LightMode(TorchDispatchMode):
    """A dispatch mode whose first operation does not import `torch._dynamo`, which takes a second.
    What PyTorch asks is private: `tests/test_compile.py` says whether it still holds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def is_composite(func: Callable) -> bool:
    """Whether autograd takes `func` apart, which inference mode leaves to the dispatch modes."""
    if not isinstance(func, OpOverload) or not torch._C._dispatch_has_kernel(
        func.name()
    ):
        return False  # TorchScript's own have no kernels
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(func.name(), COMPOSITE) and not has_kernel(func.name(), "CPU")


def decompose(
    mode: TorchDispatchMode, func: OpOverload, args: tuple, kwargs: dict
) -> Any:
    """Run what C++ (the compiler, with `func.decompose`) makes of `func`, in sight of `mode`."""
    TorchDispatchMode.__enter__(mode)
    try:
        return func._op_dk(getattr(DispatchKey, COMPOSITE), *args, **kwargs)
    finally:
        TorchDispatchMode.__exit__(mode, None, None, None)
