"""Apple's GPUs: what they lack, and how PyTorch's MPS backend says so. The texts are those of
`aten/src/ATen/mps/EmptyTensor.cpp`, `MPSAllocator.mm` there and, in `aten/src/ATen/native/mps`,
`OperationUtils.mm`, `operations/LinearAlgebra.mm` and `Shape.mm`."""

import sys
from typing import Any, ClassVar

from cudasim.device.types.base import DeviceType, Named, in_units

# Kernels that compare devices themselves, by what they call themselves and their arguments.
NAMED = {
    "mm": ("mm", {"self": "mat1", "mat2": "mat2"}),
    "addmm": ("addmm_out_mps_impl", {"self": "self", "mat1": "mat1", "mat2": "mat2"}),
}


class MPS(DeviceType):
    name, key, number, noun, card = "mps", "MPS", 13, "mps device", "M1"
    most = usual = 1
    missing: ClassVar[dict[str, str]] = {
        "torch.float64": "Cannot convert a MPS Tensor to float64 dtype as the MPS framework "
        "doesn't support float64. Please use float32 instead.",
        "torch.complex128": "Trying to convert ComplexDouble to the MPS backend but it does not "
        "have support for that dtype.",
    }
    survives_fork = True  # PyTorch does not look
    has_cudnn = pins_copies = lists_kernels = False
    has_slow_convolution = decomposes_recurrent_layers = False
    casts_sums = True

    def memory_limit(self, fraction: float, size: int) -> int:
        return super().memory_limit(fraction, size) if fraction else sys.maxsize

    def tensor_type(self, name: str) -> str:
        return f"MPS{name.rpartition('.')[2].removesuffix('Tensor')}Type"

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        return RuntimeError(
            f"MPS backend out of memory (MPS allocated: {in_units(memory.reserved)}, other "
            f"allocations: 0 bytes, max allowed: {in_units(memory.limit)}). Tried to allocate "
            f"{in_units(size)} on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable "
            "upper limit for memory allocations (may cause system failure)."
        )

    def disagreement(self, name: str, devices: Named) -> RuntimeError | None:
        if name in ("cat", "stack"):
            first = devices[0][1]
            other = next(device for _, device in devices if device != first)
            words = "torch.cat(): all input tensors must be on the same device. Received"
            return RuntimeError(f"{words} {other} and {first}")
        if name in NAMED:
            kernel, arguments = NAMED[name]
            absent = next(argument for argument, device in devices if device.type == "cpu")
            which = f"#{[*arguments].index(absent) + 1} '{arguments[absent]}'"
            words = f"Tensor for argument {which} is on CPU, but expected it to be on GPU"
            return RuntimeError(f"{words} (while checking arguments for {kernel})")
        return RuntimeError("Placeholder storage has not been allocated on MPS device!")
