"""Two old parts of `torch.cuda`: types such as `torch.cuda.FloatTensor`, and marks of NVTX.

Such a type may be the default one. Factories then make tensors on the current GPU. What is given
no device by C++, `torch.Tensor(2)`, stays on the CPU: use a factory.
"""

import itertools
from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patching import Patches
from cudasim.session import session


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
            where = session.type.name if device is None else device
            return torch.empty(args, dtype=cls.dtype, device=where)
        return getattr(torch, cls.__name__)(*args).cuda(device)

    @property
    def dtype(cls) -> torch.dtype:
        """The type of its numbers."""
        return getattr(torch, cls.__name__).dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        """True for a tensor of that type on a GPU."""
        return isinstance(instance, torch.Tensor) and instance.type() == str(cls)

    def __repr__(cls) -> str:
        """As PyTorch prints it."""
        return f"<class '{cls}'>"

    def __str__(cls) -> str:
        """The name by which `Tensor.type` knows it."""
        return f"torch.cuda.{cls.__name__}"


def patch_default_type(patches: Patches) -> None:
    """Let `torch.set_default_tensor_type` take the types of `torch.cuda`."""
    chosen = False  # whether one of them is the default
    original = torch._C._set_default_tensor_type

    def leave() -> None:
        nonlocal chosen
        if chosen:
            torch.set_default_device(None)
        chosen = False

    def _set_default_tensor_type(kind: Any) -> None:
        nonlocal chosen
        if not isinstance(kind, LegacyType):
            leave()
            original(kind)
            return
        if not kind.dtype.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device(session.type.name)
        chosen = True

    patches.replace(torch._C, "_set_default_tensor_type", _set_default_tensor_type)
    plain = torch._C._get_default_device

    def _get_default_device() -> str:
        return session.type.name if chosen else plain()

    patches.replace(torch._C, "_get_default_device", _get_default_device)  # printing asks it
    patches.finally_do(leave)


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        """No range is open."""
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

    def nothing(self, *args: Any) -> None:
        """Mark a moment, or begin or end a range on a stream or in any thread."""

    rangeEnd = markA = deviceRangeStart = deviceRangeEnd = nothing
