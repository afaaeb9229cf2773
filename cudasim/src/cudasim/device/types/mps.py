"""Apple's GPUs: what they lack, and how PyTorch's MPS backend says so. The texts are those of
`aten/src/ATen/mps/EmptyTensor.cpp`, `MPSAllocator.mm` there and, in `aten/src/ATen/native/mps`,
`OperationUtils.mm`, `operations/LinearAlgebra.mm` and `Shape.mm`."""

import sys
from typing import Any, ClassVar

from cudasim.device.types.base import DeviceType, Named, in_units
from cudasim.words import WORDS

# Kernels that compare devices themselves, by what they call themselves and their arguments.
NAMED = {
    "mm": ("mm", {"self": "mat1", "mat2": "mat2"}),
    "addmm": ("addmm_out_mps_impl", {"self": "self", "mat1": "mat1", "mat2": "mat2"}),
}


class MPS(DeviceType):
    name, key, number, noun, card = "mps", "MPS", 13, "mps device", "M1"
    most = usual = 1
    missing: ClassVar[dict[str, str]] = WORDS["lacked by MPS"]
    survives_fork = True  # PyTorch does not look
    has_cudnn = pins_copies = lists_kernels = False
    has_slow_convolution = decomposes_recurrent_layers = False
    casts_sums = True

    def memory_limit(self, fraction: float, size: int) -> int:
        return super().memory_limit(fraction, size) if fraction else sys.maxsize

    def tensor_type(self, name: str) -> str:
        return f"MPS{name.rpartition('.')[2].removesuffix('Tensor')}Type"

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        sizes = map(in_units, (memory.reserved, memory.limit, size))
        return RuntimeError(WORDS["MPS"]["full"].format(*sizes))

    def disagreement(self, name: str, devices: Named) -> RuntimeError | None:
        if name in ("cat", "stack"):
            first = devices[0][1]
            other = next(device for _, device in devices if device != first)
            return RuntimeError(WORDS["MPS"]["cat"].format(other, first))
        if name in NAMED:
            kernel, arguments = NAMED[name]
            absent = next(
                argument for argument, device in devices if device.type == "cpu"
            )
            which = f"#{[*arguments].index(absent) + 1} '{arguments[absent]}'"
            return RuntimeError(WORDS["MPS"]["argument"].format(which, kernel))
        return RuntimeError("Placeholder storage has not been allocated on MPS device!")
