"""`torch.compile` and TorchScript. Code that is compiled is accepted, and runs as it is written.

The compiler makes code for a GPU's processors, of which there are none. Compiled functions
and modules keep their type, their `state_dict` and their arguments; what they compute, and on
which device, is what PyTorch without a compiler computes. A warning says so, once. Nothing is
traced: so a program's own backend, which would never be called, is refused, and a warning says
that `fullgraph=True` finds no graph break.
"""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patches.guards import registry
from cudasim.patching import Patches

UNCOMPILED = "torch.compile generates no code for simulated GPUs; what it is given runs uncompiled"
UNTRACED = "fullgraph=True is not checked for simulated GPUs: a graph break is not found"


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
    patches.replace(torch.export, "export", make_export(torch.export.export))
    loading = torch.jit._serialization
    validate = loading.validate_map_location
    patches.replace(loading, "validate_map_location", make_validate(validate))
    if "torch._dynamo" in sys.modules:  # something may have been compiled before
        _run_uncompiled(patches)


def _run_uncompiled(patches: Patches) -> None:
    """Run whatever is compiled as it is written, until the simulation ends."""
    stance = torch.compiler.set_stance("force_eager")
    patches.finally_do(lambda: stance.__exit__(None, None, None))


def _make_compile(original: Callable, patches: Patches) -> Callable:
    warned = set()
    uncompiled = []

    def say(words: str) -> None:
        if words not in warned:
            warned.add(words)
            warnings.warn(f"cudasim: {words}", stacklevel=3)

    @wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)  # refuses what it does not understand
        inside = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch"
        if not inside:
            _refuse_own(kwargs.get("backend", "inductor"))
            say(UNCOMPILED)
            if kwargs.get("fullgraph"):
                say(UNTRACED)
        if not uncompiled:
            uncompiled.append(True)
            _run_uncompiled(patches)
        return compiled

    return compile


def _refuse_own(backend: Any) -> None:
    """Raise NotImplementedError for a `backend` of torch.compile that is not PyTorch's own."""
    if isinstance(backend, str):
        backend = torch._dynamo.lookup_backend(backend)
    if getattr(backend, "__module__", "torch").partition(".")[0] != "torch":
        name = getattr(backend, "__name__", type(backend).__name__)
        raise NotImplementedError(
            f"cudasim: torch.compile traces nothing for simulated GPUs, so the backend {name!r} "
            "would never be called; compile before cudasim.enable(), or with backend='eager'"
        )


def make_export(original: Callable) -> Callable:
    """`torch.export.export`. Raises NotImplementedError for `strict=True`, which compiles."""

    @wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("strict"):
            raise NotImplementedError(
                "cudasim: torch.export with strict=True does not run with simulated GPUs; "
                "leave it out, as strict=False is the default"
            )
        if registry() is None:
            raise NotImplementedError(
                "cudasim: torch.export does not run with simulated GPUs on this platform; "
                "export before cudasim.enable()"
            )
        return original(*args, **kwargs)

    return export


def make_validate(original: Callable) -> Callable:
    """The check of `torch.jit.load`'s `map_location`, which names the current GPU by its index.

    C++ would take a device without an index for the CPU, of which alone it knows.
    """

    @wraps(original)
    def validate(map_location: Any = None) -> torch.device | None:
        device = original(map_location)
        gpu = None if device is None else resolve(device)
        return gpu.device if isinstance(gpu, GPU) else device

    return validate


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
