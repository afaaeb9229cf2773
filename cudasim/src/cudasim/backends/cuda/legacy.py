"""Two old parts of `torch.cuda`: types such as `torch.cuda.FloatTensor`, and marks of NVTX.

Such a type may be the default one. Factories then make tensors on the current GPU. What is given
no device by C++, `torch.Tensor(2)`, stays on the CPU: use a factory.
"""

import itertools
from typing import Any

import torch

from cudasim.backends.accelerator import nothing
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patching import Patches


class LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and similar types: a dtype on a GPU."""

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """A tensor on `device`, or the current GPU, from sizes or from data.

        Raises RuntimeError, with PyTorch's text, for a device of another type.
        """
        if device is not None and not isinstance(resolve(device), GPU):
            raise RuntimeError(
                "legacy constructor expects device type: cuda but device type: "
                f"{torch.device(device).type} was passed"
            )
        if args and all(isinstance(size, int) for size in args):  # made there, not copied
            return torch.empty(args, dtype=cls.dtype, device="cuda" if device is None else device)
        return getattr(torch, cls.__name__)(*args).cuda(device)

    @property
    def dtype(cls) -> torch.dtype:
        return getattr(torch, cls.__name__).dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.type() == str(cls)

    def __repr__(cls) -> str:
        return f"<class '{cls}'>"

    def __str__(cls) -> str:
        """The name by which `Tensor.type` knows it."""
        return f"torch.cuda.{cls.__name__}"


def patch_types(patches: Patches) -> None:
    """Let there be the types of `torch.cuda`, which `torch.set_default_tensor_type` takes too."""
    for name in torch.cuda.__all__:
        if name.endswith("Tensor"):
            kind = LegacyType(name, (), {"__module__": "torch.cuda"})
            patches.replace(torch.cuda, name, kind)
    chosen = False  # whether one of them is the default
    set_type, get_device = torch._C._set_default_tensor_type, torch._C._get_default_device

    def leave() -> None:
        nonlocal chosen
        if chosen:
            torch.set_default_device(None)
        chosen = False

    def _set_default_tensor_type(kind: Any) -> None:
        nonlocal chosen
        if not isinstance(kind, LegacyType):
            leave()
            set_type(kind)
            return
        if not kind.dtype.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")
        chosen = True

    def _get_default_device() -> str:  # which printing asks
        return "cuda" if chosen else get_device()

    patches.replace(torch._C, "_set_default_tensor_type", _set_default_tensor_type)
    patches.replace(torch._C, "_get_default_device", _get_default_device)
    patches.finally_do(leave)


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        self._depth = 0
        self._ids = itertools.count(1)

    def rangePushA(self, message: str) -> int:
        """Open a range; returns how many were open."""
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        """Close the latest range; returns how many are still open, -1 if none was."""
        left = self._depth - 1
        self._depth = max(left, 0)
        return left

    def rangeStartA(self, message: str) -> int:
        """Open a range that any thread may close; returns its number."""
        return next(self._ids)

    rangeEnd = markA = deviceRangeStart = deviceRangeEnd = staticmethod(nothing)
