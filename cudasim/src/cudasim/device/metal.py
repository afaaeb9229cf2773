"""What Apple's GPUs lack, and how PyTorch's MPS backend says so.

The texts are those of `aten/src/ATen/mps/EmptyTensor.cpp` and, in `aten/src/ATen/native/mps`,
`OperationUtils.mm`, `operations/Linear.mm`, `LinearAlgebra.mm` and `Shape.mm`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Types of numbers that Metal has not, and the words for each.
MISSING = {
    torch.float64: "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't "
    "support float64. Please use float32 instead.",
    torch.complex128: "Trying to convert ComplexDouble to the MPS backend but it does not have "
    "support for that dtype.",
}

# Kernels that compare devices themselves, by what they call themselves and their arguments.
NAMED = {
    "mm": ("mm", {"self": "#1 'mat1'", "mat2": "#2 'mat2'"}),
    "addmm": (
        "addmm_out_mps_impl",
        {"self": "#1 'self'", "mat1": "#2 'mat1'", "mat2": "#3 'mat2'"},
    ),
}


def check_type(tensor: Tensor) -> None:
    """Raise TypeError if Metal has no numbers of the type of `tensor`."""
    if tensor.dtype in MISSING:
        raise TypeError(MISSING[tensor.dtype])


def disagreement(name: str, devices: list[tuple[str, torch.device]]) -> RuntimeError:
    """The error of the operation `name` for arguments on several `devices`, each with its name.

    Not for element-wise operations, whose error is the same on every type of GPU.
    """
    if name in ("cat", "stack"):
        first = devices[0][1]
        other = next(device for _, device in devices if device != first)
        return RuntimeError(
            "torch.cat(): all input tensors must be on the same device. Received "
            f"{other} and {first}"
        )
    if name in NAMED:
        kernel, arguments = NAMED[name]
        absent = next(argument for argument, device in devices if device.type == "cpu")
        return RuntimeError(
            f"Tensor for argument {arguments[absent]} is on CPU, but expected it to be on GPU "
            f"(while checking arguments for {kernel})"
        )
    return RuntimeError("Placeholder storage has not been allocated on MPS device!")


def make_linear(original: Callable) -> Callable:
    """`F.linear`, which MPS computes by a kernel of its own that compares devices in its words."""

    def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        named = {"input": input, "weight": weight, "bias": bias}
        tensors = {name: each for name, each in named.items() if isinstance(each, Tensor)}
        if any(tensor.is_mps for tensor in tensors.values()):
            for name, tensor in tensors.items():
                if tensor.device.type == "cpu":
                    raise RuntimeError(
                        f"Tensor for argument {name} is on {tensor.device} but expected on mps"
                    )
        return original(input, weight, bias)

    return linear
