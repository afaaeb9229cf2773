"""Apple's GPUs: what they lack, and how PyTorch's MPS backend says so.

The texts are those of `aten/src/ATen/mps/EmptyTensor.cpp`, `MPSAllocator.mm` there and,
in `aten/src/ATen/native/mps`, `OperationUtils.mm`, `operations/LinearAlgebra.mm` and
`Shape.mm`.
"""

import sys
from typing import Any, ClassVar

from cudasim.device.types.base import DeviceType, Named, in_units
from cudasim.words import WORDS

MESSAGES = WORDS["MPS"]
# Kernels that compare devices themselves, and what they call themselves and their
# arguments, in order.
COMPARING = {
    "mm": ("mm", {"self": "mat1", "mat2": "mat2"}),
    "addmm": ("addmm_out_mps_impl", {"self": "self", "mat1": "mat1", "mat2": "mat2"}),
}


class MPS(DeviceType):
    """Apple's GPUs; a machine has one."""

    name = "mps"
    key = "MPS"
    number = 13
    noun = "mps device"
    card = "M1"
    usual = 1
    most = 1
    missing: ClassVar[dict[str, str]] = WORDS["lacked by MPS"]
    survives_fork = True  # PyTorch does not look
    has_cudnn = False
    pins_copies = False
    is_cuda = False
    has_slow_convolution = False
    decomposes_recurrent_layers = False
    casts_sums = True

    def memory_limit(self, fraction: float, size: int) -> int:
        if not fraction:
            return sys.maxsize
        return super().memory_limit(fraction, size)

    def tensor_type(self, name: str) -> str:
        dtype = name.rpartition(".")[2].removesuffix("Tensor")
        return f"MPS{dtype}Type"

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        sizes = map(in_units, (memory.reserved, memory.limit, size))
        return RuntimeError(MESSAGES["full"].format(*sizes))

    def disagreement(self, name: str, devices: Named) -> RuntimeError | None:
        if name in ("cat", "stack"):
            first = devices[0][1]
            other = next(device for _, device in devices if device != first)
            return RuntimeError(MESSAGES["cat"].format(other, first))
        if name in COMPARING:
            kernel, arguments = COMPARING[name]
            on_cpu = [argument for argument, device in devices if device.type == "cpu"]
            place = list(arguments).index(on_cpu[0]) + 1
            argument = f"#{place} '{arguments[on_cpu[0]]}'"
            return RuntimeError(MESSAGES["argument"].format(argument, kernel))
        return RuntimeError("Placeholder storage has not been allocated on MPS device!")
