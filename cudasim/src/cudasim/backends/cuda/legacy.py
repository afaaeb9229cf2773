"""Two old parts of `torch.cuda`: types such as `torch.cuda.FloatTensor`, which may be the default
one for factories, and marks of NVTX."""

import itertools
from typing import Any

import torch

from cudasim.backends.accelerator import nothing
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patching import Patches


class LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and similar types: a dtype on a GPU."""

    def __call__(cls, *args: Any, device: Any = None, **named: Any) -> torch.Tensor:
        if device is not None and not isinstance(resolve(device), GPU):
            words = f"cuda but device type: {torch.device(device).type} was passed"
            raise RuntimeError(f"legacy constructor expects device type: {words}")
        sizes = named.get("size", args)
        if sizes and all(
            isinstance(size, int) for size in sizes
        ):  # made there, not copied
            return torch.empty(
                sizes, dtype=cls.dtype, device="cuda" if device is None else device
            )
        if args and isinstance(args[0], torch.Tensor):
            if not isinstance(args[0], cls):
                raise TypeError(f"expected {cls} (got {args[0].type()})")
            return torch.ops.aten.alias(args[0])
        return getattr(torch, cls.__name__)(*args, **named).cuda(device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.type() == str(cls)

    def __str__(cls) -> str:
        return f"torch.cuda.{cls.__name__}"


def patch_types(patches: Patches) -> None:
    for name in torch.cuda.__all__:
        if name.endswith("Tensor"):
            own = {"__module__": "torch.cuda", "dtype": getattr(torch, name).dtype}
            patches.replace(torch.cuda, name, LegacyType(name, (), own))
    original, default = torch._C._set_default_tensor_type, torch._C._get_default_device
    chosen: list[LegacyType] = []  # the one that is the default, if any is

    def leave() -> None:
        if chosen:
            chosen.clear()
            torch.set_default_device(None)

    def choose(kind: Any) -> None:
        if not isinstance(kind, LegacyType):
            leave()
            original(kind)
        elif not kind.dtype.is_floating_point:
            raise TypeError(
                "only floating-point types are supported as the default type"
            )
        else:
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")
            chosen[:] = [kind]

    patches.replace(torch._C, "_set_default_tensor_type", choose)
    # Printing asks for this one.
    patches.replace(
        torch._C, "_get_default_device", lambda: "cuda" if chosen else default()
    )
    patches.finally_do(leave)


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        self._depth, self._ids = 0, itertools.count(1)

    def rangePushA(self, message: str) -> int:
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        left = self._depth - 1
        self._depth = max(left, 0)
        return left

    def rangeStartA(self, message: str) -> int:
        return next(self._ids)

    rangeEnd = markA = deviceRangeStart = deviceRangeEnd = staticmethod(nothing)
