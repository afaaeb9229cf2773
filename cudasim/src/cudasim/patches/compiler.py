"""`torch.compile`, `torch.export` and TorchScript.

The compiler traces simulated tensors as it traces those of a card: it guards their device,
and calls the backend that was chosen. Inductor alone generates no code for them. Its graphs
run by `aot_eager`, which a warning says once.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.importing import after_import
from cudasim.notices import SimulationWarning
from cudasim.patches.guards import registry
from cudasim.patching import Patches, checks, replaces
from cudasim.session import session
from cudasim.torch_private import dispatch
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

MESSAGES = WORDS["compiler"]
DYNAMO = "torch._dynamo"  # the compiler, which most programs never import
# What only builds with CUDA have. `torch._inductor` imports it for CUDA graphs, which are
# never made here.
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
    # As where no GPU is available: constants are not moved while code is traced.
    patches.replace(
        dispatch.fake_tensor.FakeTensorMode, "avoid_device_init", property(_true)
    )

    _warn_once.cache_clear()
    if DYNAMO in sys.modules:
        from cudasim.torch_private import compiler as dynamo

        # What was compiled so far does not ask on which simulated device a tensor is.
        dynamo.forget_compiled()
    give_up = after_import(DYNAMO, partial(_prepare, patches))
    patches.finally_do(give_up)


def _true(self: Any) -> bool:
    return True


@cache  # once in a simulation
def _warn_once(message: str) -> None:
    warnings.warn(f"cudasim: {message}", SimulationWarning, stacklevel=4)


def _prepare(patches: Patches) -> None:
    """Let the compiler trace simulated tensors."""
    from cudasim.torch_private import compiler as dynamo

    patches.finally_do(dynamo.forget_compiled)
    patches.forget(dynamo.trace_rules)
    dynamo.leave_alone(Path(__file__).parents[1])
    _allow_replaced(patches)
    patches.wrap(*dynamo.TENSOR_MATCH, guard_device)
    patches.wrap(*dynamo.RUN_ON_CONSTANTS, run_on_constants)
    patches.wrap(*dynamo.INDUCTOR, compile_on_gpu)


def _allow_replaced(patches: Patches) -> None:
    """Let what replaces PyTorch's functions stand in graphs where those would.

    A function may stand under several names, of which the compiler knows one.
    """
    from cudasim.torch_private import compiler as dynamo

    in_graphs = set()
    for before, now in patches.replaced():
        if dynamo.is_in_graphs(before) or dynamo.is_in_graphs(now):
            in_graphs.add(id(before))
    for before, now in patches.replaced():
        if id(before) not in in_graphs:
            continue
        for function in (before, now):  # the program may have taken either by name
            if not dynamo.is_in_graphs(function):
                dynamo.allow_in_graphs(function)
                patches.finally_do(dynamo.forbid_in_graphs, function)


@contextmanager
def run_on_constants(original: Callable) -> Iterator[Any]:
    """Run operations on the constants of a graph, which may be on a GPU, on real tensors."""
    mode = type(session.mode)() if session.mode else nullcontext()  # of this thread
    with original() as fake_mode, mode:
        yield fake_mode


def guard_device(original: Callable, self: Any, guard: Any, value: Any = None) -> None:
    """Let what was compiled for a tensor serve tensors on its device alone.

    The compiler's own guard reads the device from C++, which says `cpu`.
    """
    from cudasim.torch_private import compiler as dynamo

    original(self, guard, value)
    tensor = value if isinstance(value, torch.Tensor) else self.get(guard)
    dynamo.add_guard(self, guard, tensor.device)


def compile_on_gpu(
    original: Callable, self: Any, graph: Any, inputs: Any, **options
) -> Callable:
    """Compile a graph by Inductor for the CPU, or by `aot_eager` for simulated GPUs."""
    from cudasim.torch_private import compiler as dynamo

    types = {tensor.device.type for tensor in dynamo.tensors_of(graph, inputs)}
    if session.type.name not in types:
        return original(self, graph, inputs, **options)
    _warn_once(MESSAGES["no code"])
    return dynamo.find_backend("aot_eager")(graph, inputs)


@checks(torch.export, "export")
def export(name: str, *args, strict: bool = False, **kwargs) -> None:
    """Refuse a strict export, which compiles, and one in which C++ would end the process."""
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
