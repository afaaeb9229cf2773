"""Classes that know simulated GPUs: `torch.device` and `torch.Generator`, which are PyTorch's own,
and what stands in for types of tensors, as none on a GPU is a `torch.FloatTensor`."""

import re
from collections.abc import Callable
from typing import Any

import torch

from cudasim.device.generator import Generator
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.dispatch.tags import gpu_of
from cudasim.patches.guards import patch_making
from cudasim.patching import Patches, replaces
from cudasim.session import session


class HostType(type):
    """The class of what stands in for types of the CPU, and is equal to them: tables find it."""

    def __call__(cls, *args, **kwargs) -> Any:
        if args and isinstance(args[0], torch.Tensor) and (gpu := gpu_of(args[0])):
            mine = _options(cls._original, torch.bool) or _options(
                cls._original, torch.uint8
            )
            theirs = _options(cls._original, args[0].dtype) or (mine[0], mine[0])
            there = theirs[1].replace("device=cpu", f"device={gpu.device}")
            raise TypeError(f"expected {mine[0]} (got {there})")
        return cls._original(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._original) and gpu_of(instance) is None

    def __subclasscheck__(cls, other: type) -> bool:
        return other == cls

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls._original

    def __hash__(cls) -> int:
        return hash(cls._original)

    def __repr__(cls) -> str:
        return repr(cls._original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._original, name)


def _options(kind: type, dtype: torch.dtype) -> tuple[str, str] | None:
    try:
        kind(torch.empty(0, dtype=dtype))
    except TypeError as error:
        return re.fullmatch(r"expected (.*) \(got (.*)\)", str(error)).groups()
    return None


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def make_device(new: Callable, cls: type, args: tuple, kwargs: dict) -> torch.device:
    given = (*args, *kwargs.values())
    if len(given) != 1 or not _is_index(given[0]):
        return new(cls, args, kwargs)
    if given[0] < 0:
        raise RuntimeError("Device index must not be negative")
    return new(cls, (session.type.name, given[0]), {})


def make_generator(
    new: Callable, cls: type, args: tuple, kwargs: dict
) -> torch.Generator:
    device = args[0] if args else kwargs.get("device", "cpu")
    simulated = isinstance(resolve(device), GPU)
    return Generator(torch.device(device)) if simulated else new(cls, args, kwargs)


def patch_classes(patches: Patches) -> None:
    patch_making(patches, torch.device, make_device)
    patch_making(patches, torch.Generator, make_generator)
    module = getattr(torch, session.type.name)
    if hasattr(module, "default_generators"):
        patches.replace(module, "default_generators", None)

        def set_generators() -> None:
            module.default_generators = tuple(gpu.generator for gpu in session.gpus)

        session.when_placed.append(set_generators)
        set_generators()
    kind = type(torch.FloatTensor)
    for name, original in list(vars(torch).items()):
        if isinstance(original, kind):
            own = {
                "__doc__": original.__doc__,
                "_original": original,
                "__module__": "torch",
            }
            patches.replace(torch, name, HostType(name, (), own))


@replaces(torch._C, "_set_default_tensor_type")
def set_default_tensor_type(original: Callable, chosen: Any) -> None:
    original(chosen._original if isinstance(chosen, HostType) else chosen)


@replaces(torch._C._nn, "_parse_to")
def parse_to(original: Callable, *args, **kwargs) -> tuple:
    """The arguments of `Module.to`; an integer is a GPU, a tensor stands for that it is on."""
    if args and _is_index(args[0]):
        args = (torch.device(args[0]), *args[1:])
    elif _is_index(kwargs.get("device")):
        kwargs["device"] = torch.device(kwargs["device"])
    parsed = original(*args, **kwargs)
    like = args[0] if args else kwargs.get("tensor")
    gpu = gpu_of(like) if isinstance(like, torch.Tensor) else None
    return (gpu.device, *parsed[1:]) if gpu else parsed
