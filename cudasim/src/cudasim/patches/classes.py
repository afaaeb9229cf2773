"""A bare integer as a device: `torch.device(1)`, `module.to(rank)`.

PyTorch reads it as a device of the machine's accelerator, and C++ finds none.
"""

from typing import Any

import torch

from cudasim.device import gpus
from cudasim.dispatch.tags import gpu_of
from cudasim.patching import Patches

_Device = torch.device  # PyTorch's own class


class _Devices(type):
    """The class of the stand-in for `torch.device`: all but bare integers is left to it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        """A real `torch.device`: of the simulated type, if all that is given is an index."""
        (value,) = [*args, *kwargs.values()] if len(args) + len(kwargs) == 1 else [None]
        if is_index(value):
            return to_device(value)
        return _Device(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a real `torch.device`."""
        return isinstance(instance, _Device)

    def __subclasscheck__(cls, other: type) -> bool:
        """True for PyTorch's class and for this one."""
        return other is cls or issubclass(other, _Device)

    def __eq__(cls, other: object) -> bool:
        """Equal to PyTorch's class, which tables of types hold."""
        return other is cls or other is _Device

    def __hash__(cls) -> int:
        """The hash of PyTorch's class, so that tables of types find it."""
        return hash(_Device)


class device(metaclass=_Devices):
    """Stands in for `torch.device`, whose instances it makes and recognises."""

    __doc__ = _Device.__doc__


device.__module__, device.__qualname__ = "torch", "device"  # as pickle looks it up


def is_index(value: Any) -> bool:
    """True for an integer that may name a device. A bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def to_device(index: int) -> torch.device:
    """The simulated device `index`. Raises RuntimeError, with torch's words, if it is negative."""
    if index < 0:
        raise RuntimeError("Device index must not be negative")
    return _Device(gpus.kind.type, index)


def patch_integers(patches: Patches) -> None:
    """Let integers name simulated GPUs where C++ would look for an accelerator."""
    patches.replace(torch, "device", device)
    parse_to = torch._C._nn._parse_to

    def _parse_to(*args: Any, **kwargs: Any) -> tuple:
        """The arguments of `Module.to`; an integer is a GPU, a tensor stands for that it is on."""
        if args and is_index(args[0]):
            args = (to_device(args[0]), *args[1:])
        elif is_index(kwargs.get("device")):
            kwargs["device"] = to_device(kwargs["device"])
        parsed = parse_to(*args, **kwargs)
        like = args[0] if args else kwargs.get("tensor")
        gpu = gpu_of(like) if isinstance(like, torch.Tensor) else None
        return (gpu.device, *parsed[1:]) if gpu else parsed

    patches.replace(torch._C._nn, "_parse_to", _parse_to)
