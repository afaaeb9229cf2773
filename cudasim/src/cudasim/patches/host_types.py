"""`torch.FloatTensor` and its like: types of numbers on the CPU, of which no GPU's tensor is."""

from typing import Any

import torch

from cudasim.dispatch.tags import gpu_of
from cudasim.patching import Patches


class HostType(type):
    """The class of the stand-ins, each of which leaves all else to the class it stands for."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        """A tensor of the CPU, from sizes or from data."""
        return cls._original(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a tensor of that type on the CPU."""
        return isinstance(instance, cls._original) and gpu_of(instance) is None

    def __subclasscheck__(cls, other: type) -> bool:
        """True for PyTorch's class and for this one."""
        return other == cls

    def __eq__(cls, other: object) -> bool:
        """Equal to PyTorch's class, which tables of types hold."""
        return other is cls or other is cls._original

    def __hash__(cls) -> int:
        """The hash of PyTorch's class, so that tables of types find it."""
        return hash(cls._original)

    def __repr__(cls) -> str:
        """As PyTorch prints it."""
        return repr(cls._original)

    def __getattr__(cls, name: str) -> Any:
        """What is not here is PyTorch's: `dtype`, for example."""
        return getattr(cls._original, name)


def patch_host_types(patches: Patches) -> None:
    """Let the types of the CPU disown tensors on simulated GPUs."""
    kind = type(torch.FloatTensor)
    for name, original in list(vars(torch).items()):
        if isinstance(original, kind):
            own = {"__module__": "torch", "_original": original}
            patches.replace(torch, name, HostType(name, (), own))
    set_default = torch._C._set_default_tensor_type

    def _set_default_tensor_type(chosen: Any) -> None:
        set_default(chosen._original if isinstance(chosen, HostType) else chosen)

    patches.replace(torch._C, "_set_default_tensor_type", _set_default_tensor_type)
