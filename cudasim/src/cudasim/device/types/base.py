"""What a type of device is to PyTorch: its names, its numbers, and the words of its errors. No
other module compares names of types. What only one has, as `torch.mps`, is in `backends`."""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

Named = list[tuple[str, Any]]  # of each argument its name and its torch.device


class DeviceType:
    """One type of device; what is written here holds unless the type says otherwise."""

    name: str  # as in torch.device("cuda:0"), torch.cuda and Tensor.is_cuda
    key: str  # the dispatcher's name for it, which C++ uses in names of kernels
    number: int  # C++'s number for it (c10/core/DeviceType.h)
    noun: str  # what people call one
    card: str  # which card is simulated if a program does not say
    usual, most = (
        2,
        64,
    )  # how many if it does not say, and at most: more are surely a slip

    missing: ClassVar[dict[str, str]] = {}  # dtypes that it lacks -> the error
    context = 0  # bytes that a process takes of a card by using it, beside its tensors
    kernel_suffix: str | None = (
        None  # what replaces `cpu` in names of kernels, where it is known
    )
    survives_fork = False  # a forked process may go on using it
    has_cudnn = True
    pins_copies = True  # what goes to the CPU with `non_blocking` goes to pinned memory
    has_slow_convolution = True  # a kernel of that name, which errors name
    decomposes_recurrent_layers = (
        True  # into operators, after it has compared devices itself
    )
    lists_kernels = True  # `dispatch/kernels.json` tells which types its kernels take
    casts_sums = False  # autocast casts what others compute with `dtype=torch.float32`

    def word(self, number: int) -> str:
        return self.noun if number == 1 else f"{self.noun}s"

    def check_number(self, gpus: object, source: str = "gpus") -> int:
        """`gpus`, if a machine can have so many. Raises ValueError; `source` is who named it."""
        if (
            isinstance(gpus, int)
            and not isinstance(gpus, bool)
            and 1 <= gpus <= self.most
        ):
            return gpus
        words = f"the number of simulated GPUs is from 1 to {self.most}"
        words = (
            f"a machine has exactly one {self.name} device" if self.most == 1 else words
        )
        raise ValueError(f"{source}={gpus!r}: {words}")

    def check_dtype(self, tensor: "torch.Tensor") -> None:
        words = self.missing.get(str(tensor.dtype))
        if words:
            raise TypeError(words)

    def memory_limit(self, fraction: float, size: int) -> int:
        return int(fraction * size)

    def tensor_type(self, name: str) -> str:
        """How C++ prints the type that Python calls `name`."""
        return name

    def out_of_memory(self, memory: Any, size: int) -> RuntimeError:
        """The error for a segment of `size` bytes for which an allocator's `memory` has no room."""

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        """The error for device `index` of `count`, where there may be several."""

    def disagreement(self, name: str, devices: Named) -> RuntimeError | None:
        """The error of an operation on several devices, not an element-wise one; None: CUDA's."""

    def assertion(self) -> RuntimeError | None:
        """The error of a kernel that an assertion has stopped; None if it is the CPU's own."""

    def elapsed_between_devices(self) -> RuntimeError | None:
        """The error for the time between events on two devices; None if it may be taken."""


def in_units(size: int) -> str:
    """A number of bytes as PyTorch's allocators print it: `512.00 MiB`."""
    if size <= 1024:
        return f"{size} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size <= 1024:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} GiB"
