"""Two old parts of `torch.cuda`.

Types such as `torch.cuda.FloatTensor`, which may be the default one for factories, and
marks of NVTX.
"""

import itertools
from typing import Any

import torch
from torch import Tensor

from cudasim.backends.accelerator import do_nothing
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.patching import Patches
from cudasim.torch_private.tensors import GET_DEFAULT_DEVICE, SET_DEFAULT_TENSOR_TYPE
from cudasim.words import WORDS


class LegacyType(type):
    """The class of `torch.cuda.FloatTensor` and similar types: a dtype on a GPU."""

    def __call__(cls, *args: Any, device: Any = None, **named: Any) -> Tensor:
        if device is not None and not isinstance(resolve(device), GPU):
            passed = torch.device(device).type
            raise RuntimeError(WORDS["devices"]["legacy"].format("cuda", passed))
        sizes = named.get("size", args)
        if sizes and all(isinstance(size, int) for size in sizes):
            # Made on the GPU; anything else is made on the CPU and copied.
            if device is None:
                device = "cuda"
            return torch.empty(sizes, dtype=cls.dtype, device=device)
        if args and isinstance(args[0], Tensor):
            if not isinstance(args[0], cls):
                raise TypeError(f"expected {cls} (got {args[0].type()})")
            return torch.ops.aten.alias(args[0])
        host_type = getattr(torch, cls.__name__)
        return host_type(*args, **named).cuda(device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.type() == str(cls)

    def __str__(cls) -> str:
        return f"torch.cuda.{cls.__name__}"


class DefaultType:
    """The default type of tensors, which may be one of a GPU."""

    def __init__(self) -> None:
        self._set_type = SET_DEFAULT_TENSOR_TYPE.read()
        self._get_device = GET_DEFAULT_DEVICE.read()
        self._on_gpu = False

    def choose(self, kind: Any) -> None:
        if not isinstance(kind, LegacyType):
            self.leave()
            self._set_type(kind)
            return
        if not kind.dtype.is_floating_point:
            raise TypeError(
                "only floating-point types are supported as the default type"
            )
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")
        self._on_gpu = True

    def leave(self) -> None:
        """Let the CPU be the default again, if a GPU was."""
        if self._on_gpu:
            self._on_gpu = False
            torch.set_default_device(None)

    def device(self) -> str:
        return "cuda" if self._on_gpu else self._get_device()


def patch_types(patches: Patches) -> None:
    for name in torch.cuda.__all__:
        if name.endswith("Tensor"):
            dtype = getattr(torch, name).dtype
            namespace = {"__module__": "torch.cuda", "dtype": dtype}
            patches.replace(torch.cuda, name, LegacyType(name, (), namespace))

    default = DefaultType()
    patches.replace(*SET_DEFAULT_TENSOR_TYPE, default.choose)
    patches.replace(*GET_DEFAULT_DEVICE, default.device)  # which printing reads
    patches.finally_do(default.leave)


class Markers:
    """What `torch.cuda.nvtx` calls: marks for a profiler that is not there."""

    def __init__(self) -> None:
        self._depth = 0
        self._ids = itertools.count(1)

    def rangePushA(self, message: str) -> int:
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        left = self._depth - 1
        self._depth = max(left, 0)
        return left

    def rangeStartA(self, message: str) -> int:
        return next(self._ids)

    rangeEnd = staticmethod(do_nothing)
    markA = rangeEnd
    deviceRangeStart = rangeEnd
    deviceRangeEnd = rangeEnd
