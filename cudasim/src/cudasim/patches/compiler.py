"""`torch.compile`, `torch.export` and TorchScript.

Compiled code keeps its type, `state_dict` and arguments, but runs as it is written, which
a warning says once. Backends of a program's own are refused.
"""

import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patches.guards import registry
from cudasim.patching import Patches, checks, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

MESSAGES = WORDS["compiler"]
# What builds with CUDA have, and `torch._inductor` imports for graphs that are never made.
ONLY_IN_CUDA_BUILDS = {
    private.ALLOCATOR_STATE: type("AllocatorState", (), {}),
    private.CACHE_TENSORS: lambda enabled: None,
}


def patch_compile(patches: Patches) -> None:
    for attribute, value in ONLY_IN_CUDA_BUILDS.items():
        if not hasattr(*attribute):
            patches.replace(*attribute, value)
    # Fake tensors first make a plain one: PyTorch 2.11 does so where no mode sees it.
    patches.replace(dispatch.fake_tensor, "init_gpu_context", lambda device: None)

    _warn_once.cache_clear()
    _run_uncompiled.cache_clear()
    if "torch._dynamo" in sys.modules:  # something may have been compiled before
        _run_uncompiled()


@cache  # once in a simulation
def _warn_once(message: str) -> None:
    warnings.warn(f"cudasim: {message}", stacklevel=4)


@cache
def _run_uncompiled() -> None:
    """Run what is compiled, so far and from now on, as it is written."""
    stance = torch.compiler.set_stance("force_eager")
    session.patches.finally_do(stance.__exit__, None, None, None)


@replaces(torch, "compile")
def compile(original: Callable, *args, **kwargs) -> Any:
    compiled = original(*args, **kwargs)  # refuses what it does not understand
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if not _is_torch(caller):
        _refuse_backend(kwargs.get("backend", "inductor"))
        _warn_once(MESSAGES["uncompiled"])
        if kwargs.get("fullgraph"):
            _warn_once(MESSAGES["untraced"])
    _run_uncompiled()
    return compiled


def _refuse_backend(backend: str | Callable) -> None:
    """Raise NotImplementedError for a backend of the program's own: none is ever called."""
    if isinstance(backend, str):
        backend = private.find_compiler(backend)
    if not _is_torch(getattr(backend, "__module__", "torch")):
        name = getattr(backend, "__name__", type(backend).__name__)
        raise NotImplementedError(MESSAGES["uncalled"].format(name))


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


@checks(torch.export, "export")
def export(name: str, *args, strict: bool = False, **kwargs) -> None:
    """Refuse an export that would compile, or in which C++ would end the process."""
    if strict:
        raise NotImplementedError(MESSAGES["strict"])
    if registry() is None:
        raise NotImplementedError(MESSAGES["unexported"])


@replaces(private.torchscript_files, "validate_map_location")
def validate_map_location(
    original: Callable, map_location: Any = None
) -> torch.device | None:
    """Name the GPU for `torch.jit.load`: C++ takes one without an index for the CPU."""
    device = original(map_location)
    gpu = resolve(device)
    return gpu.device if isinstance(gpu, GPU) else device


def patch_torchscript(patches: Patches) -> None:
    """Let TorchScript, which knows PyTorch's functions by identity, know what replaces them."""
    names = private.torchscript_names()
    for before, now in patches.replaced():
        name = names.get(id(before))
        if name:
            patches.replace_item(names, id(now), name)
