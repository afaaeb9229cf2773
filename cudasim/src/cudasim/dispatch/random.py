"""Random operations draw from the generator of their own GPU, never from the CPU's."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from cudasim.device import generator, gpus
from cudasim.device.generator import find
from cudasim.device.gpus import GPU
from cudasim.dispatch.places import place
from cudasim.patching import Patches

_Generator = torch._C.Generator  # PyTorch's own class

PLAIN, NAMED, GLOBAL = range(3)  # draws nothing; takes `generator=`; draws from the default one
_kinds: dict[Callable, int] = {}
_borrowed = threading.Lock()  # held while an operation has the CPU's default generator


class _Generators(type):
    """The class of the stand-in for `torch.Generator`: every real generator is one."""

    def __call__(cls, device: Any = "cpu") -> torch._C.Generator:
        """A generator for `device`: a torch.device, a string, or the index of a GPU."""
        gpu = place(device)
        if not isinstance(gpu, GPU):
            return _Generator(device)
        return generator.Generator(torch.device(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a generator of any device."""
        return isinstance(instance, _Generator)

    def __subclasscheck__(cls, other: type) -> bool:
        """True for PyTorch's class and what derives from it."""
        return other is cls or issubclass(other, _Generator)


class Generator(metaclass=_Generators):
    """Stands in for `torch.Generator`, whose instances it makes and recognises."""

    __doc__ = _Generator.__doc__


Generator.__module__, Generator.__qualname__ = "torch", "Generator"  # as pickle looks it up


def patch_randomness(patches: Patches) -> None:
    """Let generators have simulated GPUs as their device, and each GPU one of its own."""
    patches.replace(torch, "Generator", Generator)
    module = getattr(torch, gpus.kind.type)
    if hasattr(module, "default_generators"):
        patches.replace(module, "default_generators", tuple(each.generator for each in gpus.gpus))


def kind(func: Callable) -> int:
    """How the operation `func` draws random numbers, if it does."""
    found = _kinds.get(func)
    if found is None:
        found = PLAIN
        if torch.Tag.nondeterministic_seeded in func.tags:
            named = any(argument.name == "generator" for argument in func._schema.arguments)
            found = NAMED if named else GLOBAL
        _kinds[func] = found
    return found


def source(gpu: GPU, given: torch._C.Generator | None) -> torch._C.Generator:
    """From what one operation on `gpu` draws, if the caller has `given` a generator or None.

    Raises RuntimeError, with CUDA's text, for a generator of the CPU.
    """
    chosen = gpu.generator if given is None else find(given)
    if chosen is None:
        raise wrong_generator(gpus.kind.type, "cpu")
    return chosen.draw()


def check_host(given: torch._C.Generator | None) -> None:
    """Raise RuntimeError, with torch's text, for a GPU's generator in an operation of the CPU."""
    if given is not None and find(given) is not None:
        raise wrong_generator("cpu", gpus.kind.type)


def wrong_generator(expected: str, found: str) -> RuntimeError:
    """The error for a generator of another type of device."""
    return RuntimeError(f"Expected a '{expected}' device type for generator but found '{found}'")


def draw(func: Callable, args: tuple, kwargs: dict, gpu: GPU) -> Any:
    """Run `func` on the CPU; what it draws, it draws from the stream of `gpu`."""
    how = _kinds.get(func)
    if how is None:
        how = kind(func)
    if how == PLAIN:
        return func(*args, **kwargs)
    if how == NAMED:
        return func(*args, **{**kwargs, "generator": source(gpu, kwargs.get("generator"))})
    seed = gpu.generator.draw().initial_seed()
    default = torch.default_generator
    with _borrowed:
        before = default.get_state()
        default.manual_seed(seed)
        try:
            return func(*args, **kwargs)
        finally:
            default.set_state(before)
