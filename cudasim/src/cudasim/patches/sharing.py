"""Memory of simulated GPUs shared with others: other processes, and libraries by DLPack.

Between processes a real GPU's memory travels as a CUDA IPC handle, by way of two methods of
storages. Here the same methods pass the host's shared memory on, so torch.multiprocessing's
own code does the rest. As with CUDA, the receiver does not count the bytes as its own. MPS
cannot share.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack
from torch import Tensor, UntypedStorage
from torch.multiprocessing import get_sharing_strategy, reductions

from cudasim.device.gpu import Allocation
from cudasim.dispatch.tags import TAG, gpu_of, gpu_of_storage
from cudasim.patching import Patches
from cudasim.session import session


def patch_sharing(patches: Patches) -> None:
    """Make DLPack work between torch's own tensors, and refuse other libraries."""
    from_dlpack = make_from_dlpack(torch.from_dlpack, Tensor.__dlpack__)
    patches.replace(Tensor, "__dlpack__", make_dlpack(Tensor.__dlpack__))
    patches.replace(torch.utils.dlpack, "to_dlpack", make_to_dlpack(torch.utils.dlpack.to_dlpack))
    for module in (torch, torch.utils.dlpack):
        patches.replace(module, "from_dlpack", from_dlpack)


def patch_sharing_by_handle(patches: Patches) -> None:
    """Make it possible to send tensors on simulated GPUs to other processes."""
    patches.replace(UntypedStorage, "_share_cuda_", share)
    patches.replace(UntypedStorage, "_new_shared_cuda", classmethod(open_shared))
    patches.replace(UntypedStorage, "_release_ipc_counter_cuda", staticmethod(release))
    patches.replace(UntypedStorage, "is_shared", make_is_shared(UntypedStorage.is_shared))


def refuse_sharing(patches: Patches) -> None:
    """Refuse to send tensors on simulated GPUs to other processes (StorageSharing.cpp)."""
    for called in ("_share_fd_", "_share_filename_"):
        name = f"{called}cpu_"
        refusing = make_refusing(getattr(UntypedStorage, name), called)
        patches.replace(UntypedStorage, name, refusing)


def make_refusing(original: Callable, called: str) -> Callable:
    """A method that shares the host's memory, with PyTorch's words for a GPU's."""

    def share(self: UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if gpu_of_storage(self) is not None:
            raise RuntimeError(f"{called}: only available on CPU")
        return original(self, *args, **kwargs)

    return share


def make_is_shared(original: Callable) -> Callable:
    """`UntypedStorage.is_shared`: the memory of a GPU always is."""

    def is_shared(self: UntypedStorage) -> bool:
        return gpu_of_storage(self) is not None or original(self)

    return is_shared


def share(self: UntypedStorage) -> tuple:
    """`UntypedStorage._share_cuda_`: what another process needs to open this memory.

    Returns (device, handle, bytes, offset, counter handle, counter offset, event handle,
    whether to wait for the event), of which the simulation uses the first three.
    """
    gpu = gpu_of_storage(self)
    if gpu is None:
        raise RuntimeError("_share_cuda_: only available on CUDA")
    if sys.platform == "win32":
        raise RuntimeError(
            "cudasim: CUDA cannot share memory between processes on Windows (see PyTorch's "
            "Windows FAQ); send a tensor of the CPU"
        )
    handle = None  # nothing to share
    if self.nbytes() and get_sharing_strategy() == "file_system":
        handle = self._share_filename_cpu_()
        self._shared_incref()  # until the receiver has opened it
    elif self.nbytes():
        from multiprocessing.reduction import DupFd  # is not on Windows

        descriptor, size = self._share_fd_cpu_()
        handle = DupFd(descriptor), size
    return gpu.index, handle, self.nbytes(), 0, b"", 0, b"", False


def open_shared(cls: type, device: int, handle: tuple, size: int, *unused: Any) -> UntypedStorage:
    """`UntypedStorage._new_shared_cuda`: the memory of another process, on GPU `device`.

    Raises CUDA's error if this process has no such GPU.
    """
    gpu = session.gpu(device)
    if len(handle) == 2:
        storage = reductions.rebuild_storage_fd(cls, *handle)
    else:
        storage = cls._new_shared_filename_cpu(*handle)._shared_decref()
    if gpu_of_storage(storage) is None:  # it may be one that this process has opened already
        setattr(storage, TAG, Allocation(gpu, 0))
    return storage


def release(*unused: Any, **also_unused: Any) -> None:
    """`UntypedStorage._release_ipc_counter_cuda`: the host counts for itself."""


def _refuse(tensor: Tensor) -> None:
    """Raise BufferError if `tensor` is on a simulated GPU: no other library can reach it."""
    gpu = gpu_of(tensor)
    if gpu is not None:
        raise BufferError(
            f"{gpu.device} is simulated: no other library can read its memory by DLPack; "
            "use Tensor.cpu() first"
        )


def make_dlpack(original: Callable) -> Callable:
    """`Tensor.__dlpack__`, which other libraries call."""

    def __dlpack__(self: Tensor, **kwargs: Any) -> Any:
        _refuse(self)
        return original(self, **kwargs)

    return __dlpack__


def make_to_dlpack(original: Callable) -> Callable:
    """`torch.utils.dlpack.to_dlpack`."""

    def to_dlpack(tensor: Tensor) -> Any:
        _refuse(tensor)
        return original(tensor)

    return to_dlpack


def make_from_dlpack(original: Callable, export: Callable) -> Callable:
    """`torch.from_dlpack`, which takes torch's own tensors too: they share their memory.

    `export` is `Tensor.__dlpack__` as torch has it, whose refusals hold here as well.
    """

    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
        if not isinstance(ext_tensor, Tensor) or gpu_of(ext_tensor) is None:
            return original(ext_tensor, device=device, copy=copy)
        export(ext_tensor)
        shared = ext_tensor.detach()
        moved = shared if device is None else shared.to(device)
        return moved.clone() if copy and moved is shared else moved

    return from_dlpack
