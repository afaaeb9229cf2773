"""`torch.compile` and TorchScript: compiled code keeps its type, `state_dict` and arguments, and
runs as it is written, which a warning says once. Backends of a program's own are refused."""

import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._subclasses import fake_tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patches.guards import registry
from cudasim.patching import Patches, checks, replaces
from cudasim.session import session
from cudasim.words import WORDS

SAID = WORDS["compiler"]
# What a build with CUDA has, and `torch._inductor` imports for graphs that are never made.
OF_CUDA = {
    "_cuda_CUDAAllocator_AllocatorState": type("AllocatorState", (), {}),
    "_set_cached_tensors_enabled": lambda enabled: None,
}


def patch_compile(patches: Patches) -> None:
    for name, value in OF_CUDA.items():
        if not hasattr(torch._C, name):
            patches.replace(torch._C, name, value)
    # Fake tensors first make a plain one: 2.11 does so where no mode sees it.
    patches.replace(fake_tensor, "init_gpu_context", lambda device: None)
    _say.cache_clear()
    _run_uncompiled.cache_clear()
    if "torch._dynamo" in sys.modules:  # something may have been compiled before
        _run_uncompiled()


@cache  # once in a simulation
def _say(words: str) -> None:
    warnings.warn(f"cudasim: {words}", stacklevel=4)


@cache
def _run_uncompiled() -> None:
    stance = torch.compiler.set_stance("force_eager")
    session.patches.finally_do(stance.__exit__, None, None, None)


@replaces(torch, "compile")
def compile(original: Callable, *args, **kwargs) -> Any:
    compiled = original(*args, **kwargs)  # refuses what it does not understand
    if not _is_torch(sys._getframe(2).f_globals.get("__name__", "")):
        backend = kwargs.get("backend", "inductor")
        if isinstance(backend, str):
            backend = torch._dynamo.lookup_backend(backend)
        if not _is_torch(getattr(backend, "__module__", "torch")):
            name = getattr(backend, "__name__", type(backend).__name__)
            raise NotImplementedError(SAID["uncalled"].format(name))
        _say(SAID["uncompiled"])
        if kwargs.get("fullgraph"):
            _say(SAID["untraced"])
    _run_uncompiled()
    return compiled


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


@checks(torch.export, "export")
def export(name: str, *args, strict: bool = False, **kwargs) -> None:
    """It is refused where it would compile, and where C++ would end the process."""
    if strict or registry() is None:
        raise NotImplementedError(SAID["strict" if strict else "unexported"])


@replaces(torch.jit._serialization, "validate_map_location")
def validate_map_location(
    original: Callable, map_location: Any = None
) -> torch.device | None:
    """What `torch.jit.load` is told: C++ would take a device without an index for the CPU."""
    device = original(map_location)
    gpu = resolve(device)
    return gpu.device if isinstance(gpu, GPU) else device


def patch_torchscript(patches: Patches) -> None:
    """Let TorchScript, which knows PyTorch's functions by identity, know what replaces them."""
    table = torch.jit._builtins._get_builtin_table()
    for before, now in patches.replaced():
        if name := table.get(id(before)):
            patches.replace_item(table, id(now), name)
