"""Tensor subclasses that wrap others, such as DTensor: torch's C++ must not see their GPU.

A wrapper has no memory of its own. It is made as one of the CPU, and its empty storage says
on which simulated GPU it is.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cudasim.device.gpus import GPU, Allocation
from cudasim.dispatch.places import place
from cudasim.dispatch.tags import TAG, storage_of
from cudasim.patching import Patches

DEVICE = 7  # the place of `device` among the arguments of `_make_wrapper_subclass`


def patch_wrappers(patches: Patches) -> None:
    """Let wrapper subclasses be made on simulated GPUs."""
    original = Tensor._make_wrapper_subclass
    patches.replace(Tensor, "_make_wrapper_subclass", staticmethod(make_wrapper(original)))


def make_wrapper(original: Callable) -> Callable:
    """`Tensor._make_wrapper_subclass`."""

    def make(*args: Any, **kwargs: Any) -> Tensor:
        args = list(args)
        device = args[DEVICE] if len(args) > DEVICE else kwargs.get("device")
        gpu = None if device is None else place(device)
        if not isinstance(gpu, GPU):
            return original(*args, **kwargs)
        if len(args) > DEVICE:
            args[DEVICE] = "cpu"
        else:
            kwargs["device"] = "cpu"
        made = original(*args, **kwargs)
        setattr(storage_of(made), TAG, Allocation(gpu, 0))
        return made

    return make
