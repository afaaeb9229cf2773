"""`torch.compile` and TorchScript. Code that is compiled is accepted, and runs as it is written.

The compiler makes code for a GPU's processors, of which there are none. Compiled functions
and modules keep their type, their `state_dict` and their arguments; what they compute, and on
which device, is what PyTorch without a compiler computes. A warning says so, once.
"""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from cudasim.patching import Patches


class AllocatorState:
    """What `torch._inductor` imports of a build with CUDA, for graphs that are never made."""


def patch_compile(patches: Patches) -> None:
    """Make `torch.compile` return what runs uncompiled."""
    for name, value in (
        ("_cuda_CUDAAllocator_AllocatorState", AllocatorState),
        ("_set_cached_tensors_enabled", lambda enabled: None),
    ):
        if not hasattr(torch._C, name):
            patches.replace(torch._C, name, value)
    patches.replace(torch, "compile", _make_compile(torch.compile, patches))
    if "torch._dynamo" in sys.modules:  # something may have been compiled before
        _run_uncompiled(patches)


def _run_uncompiled(patches: Patches) -> None:
    """Run whatever is compiled as it is written, until the simulation ends."""
    stance = torch.compiler.set_stance("force_eager")
    patches.finally_do(lambda: stance.__exit__(None, None, None))


def _make_compile(original: Callable, patches: Patches) -> Callable:
    warned = []

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        if not warned:
            warned.append(True)
            warnings.warn(
                "cudasim: torch.compile generates no code for simulated GPUs; "
                "what it is given runs uncompiled",
                stacklevel=2,
            )
            _run_uncompiled(patches)
        return original(*args, **kwargs)

    return compile


def patch_torchscript(patches: Patches) -> None:
    """Make TorchScript read each function replaced so far as the one that it replaces.

    It knows PyTorch's functions by their identity, and would look for the source of others:
    forward-mode derivatives (`torch.func.jacfwd`) compile some when they are first used.
    """
    table = torch.jit._builtins._get_builtin_table()
    for before, now in patches.replaced():
        name = table.get(id(before))
        if name is not None:
            patches.replace_item(table, id(now), name)
