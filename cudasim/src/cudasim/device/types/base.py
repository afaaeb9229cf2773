"""What a type of device is to PyTorch: its names, its numbers and its errors.

No other module compares names of types. What only one type has, as `torch.mps`, is in
`backends`.
"""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

Named = list[tuple[str, Any]]  # the name of each argument and its torch.device


class DeviceType:
    """One type of device. What is set here holds unless a type says otherwise."""

    name: str  # as in torch.device("cuda:0"), torch.cuda and Tensor.is_cuda
    key: str  # the dispatcher's name for it, which C++ uses in names of kernels
    number: int  # C++'s number for it (c10/core/DeviceType.h)
    noun: str  # what people call one
    card: str  # which card is simulated if a program does not say
    usual = 2  # how many are simulated if a program does not say
    most = 64  # more are surely a slip

    missing: ClassVar[dict[str, str]] = {}  # the error for each dtype that it lacks
    context = 0  # bytes that a process takes of a card beside its tensors
    survives_fork = False  # a forked process may continue to use it
    has_cudnn = True
    pins_copies = True  # what goes to the CPU with `non_blocking` goes to pinned memory
    has_slow_convolution = True  # a kernel of that name, which errors name
    # Into operators, after it has compared devices itself.
    decomposes_recurrent_layers = True
    is_cuda = True  # what holds for the kernels of CUDA alone holds for it
    casts_sums = False  # autocast casts what others compute with `dtype=torch.float32`

    def word(self, number: int) -> str:
        """Return the noun for so many of them."""
        return self.noun if number == 1 else f"{self.noun}s"

    def check_number(self, gpus: object, source: str = "gpus") -> int:
        """Return `gpus` if a machine can have so many; else raise ValueError.

        The message calls the setting `source`.
        """
        is_number = isinstance(gpus, int) and not isinstance(gpus, bool)
        if is_number and 1 <= gpus <= self.most:
            return gpus
        if self.most == 1:
            rule = f"a machine has exactly one {self.name} device"
        else:
            rule = f"the number of simulated GPUs is from 1 to {self.most}"
        raise ValueError(f"{source}={gpus!r}: {rule}")

    def check_dtype(self, tensor: "torch.Tensor") -> None:
        """Raise PyTorch's TypeError for a tensor of a dtype that the type lacks."""
        error = self.missing.get(str(tensor.dtype))
        if error:
            raise TypeError(error)

    def memory_limit(self, fraction: float, size: int) -> int:
        """Return how many of `size` bytes PyTorch may take, as a program limits it."""
        return int(fraction * size)

    def tensor_type(self, name: str) -> str:
        """Return how C++ prints the tensor type that Python calls `name`."""
        return name

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        """Return the error for a segment of `size` bytes that `memory` has no room for."""

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        """Return the error for device `index` of `count`, where there may be several."""

    def disagreement(self, name: str, devices: Named) -> RuntimeError | None:
        """Return the error of an operation, not a pointwise one, on several devices.

        None stands for CUDA's error.
        """

    def assertion(self) -> RuntimeError | None:
        """Return the error of a kernel that an assertion stopped; None for the CPU's."""

    def elapsed_between_devices(self) -> RuntimeError | None:
        """Return the error for a time between events on two devices; None if allowed."""


def in_units(size: int) -> str:
    """Return a number of bytes as PyTorch's allocators print it: `512.00 MiB`."""
    if size <= 1024:
        return f"{size} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size <= 1024:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} GiB"
