"""What a type of device is to PyTorch: its names, its numbers, and the words of its errors.

All in which the types differ is an attribute or a method here, so that no other module compares
names of types. What only one of them has, such as `torch.mps`, is in `backends`.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import torch

    from cudasim.device.counts import Total


class Memory(Protocol):
    """What an error says of a card's memory, in bytes."""

    index: int
    size: int
    limit: int
    context: int
    counts: "Total"
    others: Callable[[], list[tuple[int, int]]]  # (process, bytes)

    @property
    def reserved(self) -> int: ...

    @property
    def free(self) -> int: ...


class DeviceType:
    """One type of device; what is written here holds unless the type says otherwise."""

    name: str  # as in torch.device("cuda:0"), torch.cuda and Tensor.is_cuda
    key: str  # the dispatcher's name for it, which C++ uses in names of kernels
    number: int  # C++'s number for it (c10/core/DeviceType.h)
    most = 64  # how many a machine can have; a larger number is surely a slip
    usual = 2  # how many are simulated if a program does not say
    card: str  # which card is simulated if a program does not say

    missing: ClassVar[dict[str, str]] = {}  # dtypes that it lacks -> the error
    context = 0  # bytes that a process takes of a card by using it, beside its tensors
    memory_in_use = memory_advice = ""  # sentences in the error of a card that is full
    kernel_suffix: str | None = None  # what replaces `cpu` in names of kernels, where it is known
    survives_fork = False  # a forked process may go on using it
    has_cudnn = False
    pins_copies = False  # what goes to the CPU with `non_blocking` goes to pinned memory
    has_slow_convolution = True  # a kernel of that name, which errors name
    decomposes_recurrent_layers = True  # into operators, after it has compared devices itself
    lists_kernels = False  # `dispatch/kernels.json` tells which types its kernels take
    casts_sums = False  # autocast casts what others compute with `dtype=torch.float32`

    def word(self, number: int) -> str:
        """What `number` of them are called: `mps device`."""
        return f"{self.name} device" if number == 1 else f"{self.name} devices"

    def check_number(self, gpus: object, source: str = "gpus") -> int:
        """`gpus`, if a machine can have so many. Raises ValueError; `source` is who named it."""
        if isinstance(gpus, int) and not isinstance(gpus, bool) and 1 <= gpus <= self.most:
            return gpus
        if self.most == 1:
            raise ValueError(f"{source}={gpus!r}: a machine has exactly one {self.name} device")
        raise ValueError(
            f"{source}={gpus!r}: the number of simulated GPUs is from 1 to {self.most}"
        )

    def check_dtype(self, tensor: "torch.Tensor") -> None:
        """Raise TypeError if the device has no numbers of the type of `tensor`."""
        words = self.missing.get(str(tensor.dtype))
        if words:
            raise TypeError(words)

    def memory_limit(self, fraction: float, size: int) -> int:
        """How many of `size` bytes PyTorch may take if it may take `fraction` of them."""
        return int(fraction * size)

    def tensor_type(self, name: str) -> str:
        """How C++ prints the type that Python calls `name` (`torch.mps.FloatTensor`)."""
        return self.key + name.rpartition(".")[2].removesuffix("Tensor") + "Type"

    def out_of_memory(self, memory: Memory, size: int) -> RuntimeError:
        """The error for a segment of `size` bytes for which `memory` has no room.

        As in c10/cuda/CUDACachingAllocator.cpp.
        """
        import torch

        if size >= 2**60:
            return torch.OutOfMemoryError(
                f"{self.key} out of memory. Tried to allocate more than 1EB memory."
            )
        used, reserved = memory.counts.used, memory.reserved
        limit = f"{in_units(memory.limit)} allowed; " if memory.limit != memory.size else ""
        in_use = self._in_use(memory)
        return torch.OutOfMemoryError(
            f"{self.key} out of memory. Tried to allocate {in_units(size)}. GPU {memory.index} has "
            f"a total capacity of {in_units(memory.size)} of which "
            f"{in_units(memory.free)} is free. {in_use}{limit}Of the allocated memory "
            f"{in_units(used)} is allocated by PyTorch, and {in_units(reserved - used)} is "
            f"reserved by PyTorch but unallocated. {self.memory_advice}"
        )

    def _in_use(self, memory: Memory) -> str:
        """What each process takes of the card, where PyTorch says so."""
        if not self.memory_in_use:
            return ""
        mine = os.getpid(), memory.context + memory.reserved
        said = (
            self.memory_in_use.format(in_units(size))
            if process == mine[0]
            else f"Process {process} has {in_units(size)} memory in use. "
            for process, size in sorted([mine, *memory.others()])
        )
        return "".join(said)

    def cannot_fork(self) -> RuntimeError:
        """The error in a process that was forked from one that had used a GPU.

        As in torch/cuda/__init__.py (`_lazy_init`).
        """
        return RuntimeError(
            f"Cannot re-initialize {self.key} in forked subprocess. To use {self.key} with "
            "multiprocessing, you must use the 'spawn' start method"
        )

    def lost_by_fork(self) -> RuntimeError:
        """The error of a tensor that a forked process has from the one that it comes from."""
        return self.cannot_fork()

    def no_such_device(self, index: int, count: int) -> RuntimeError:
        """The error for device `index` of `count`, where there may be several."""
        raise NotImplementedError

    def disagreement(
        self, name: str, devices: list[tuple[str, "torch.device"]]
    ) -> RuntimeError | None:
        """The error of the operation `name` for arguments on several `devices`, each with its name.

        None if it is CUDA's. Not for element-wise operations, whose error is the same everywhere.
        """
        return None

    def assertion(self) -> RuntimeError | None:
        """The error of a kernel that an assertion has stopped; None if it is the CPU's own."""
        return None

    def elapsed_between_devices(self) -> RuntimeError | None:
        """The error for the time between events on two devices; None if it may be taken."""
        return None


def in_units(size: int) -> str:
    """A number of bytes as PyTorch's allocators print it: `512.00 MiB`."""
    if size <= 1024:
        return f"{size} bytes"
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size <= 1024:
            return f"{size:.2f} {unit}"
    return f"{size / 1024:.2f} GiB"
