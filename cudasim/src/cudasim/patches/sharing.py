"""Memory of simulated GPUs shared with others: processes, and libraries by DLPack. The handle that
methods of storages make is of the host's shared memory; who receives it does not count it."""

import sys
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import torch
import torch.utils.dlpack
from torch import Tensor, UntypedStorage
from torch.multiprocessing import get_sharing_strategy, reductions

from cudasim.device.gpu import Allocation
from cudasim.device.types import DEFAULT
from cudasim.dispatch.tags import TAG, gpu_of, gpu_of_storage
from cudasim.patching import checks, replaces
from cudasim.session import session
from cudasim.words import WORDS

RECEIVED = "_cudasim_received"  # the mark of a storage that another process has sent
_export = Tensor.__dlpack__  # torch's own


def _has_handles() -> bool:
    return session.type is DEFAULT


@checks(
    UntypedStorage,
    "_share_fd_cpu_",
    "_share_filename_cpu_",
    when=lambda: not _has_handles(),
)
def on_host(name: str, self: UntypedStorage, *args, **kwargs) -> None:
    if gpu_of_storage(self) is not None:
        raise RuntimeError(f"{name.removesuffix('cpu_')}: only available on CPU")


@replaces(UntypedStorage, "is_shared", when=_has_handles)
def is_shared(original: Callable, self: UntypedStorage) -> bool:
    return gpu_of_storage(self) is not None or original(self)


@replaces(UntypedStorage, "_share_cuda_", when=_has_handles)
def share(original: Callable, self: UntypedStorage) -> tuple:
    """What another process needs: (device, handle, bytes), and what the simulation does not use,
    (offset, counter handle, counter offset, event handle, whether to wait for the event)."""
    gpu = gpu_of_storage(self)
    if gpu is None:
        raise RuntimeError("_share_cuda_: only available on CUDA")
    if getattr(self, RECEIVED, False):
        raise RuntimeError(WORDS["sharing"]["received"])
    if sys.platform == "win32":
        raise RuntimeError(WORDS["sharing"]["windows"])
    handle = None  # nothing to share
    if self.nbytes() and get_sharing_strategy() == "file_system":
        handle = self._share_filename_cpu_()
        self._shared_incref()  # until the receiver has opened it
    elif self.nbytes():
        descriptor, size = self._share_fd_cpu_()
        handle = reduction.DupFd(descriptor), size
    return gpu.index, handle, self.nbytes(), 0, b"", 0, b"", False


@replaces(UntypedStorage, "_new_shared_cuda", when=_has_handles)
def open_shared(
    original: Callable, device: int, handle: tuple, *unused: Any
) -> UntypedStorage:
    gpu = session.gpu(device)
    if len(handle) == 2:
        storage = reductions.rebuild_storage_fd(UntypedStorage, *handle)
    else:
        storage = UntypedStorage._new_shared_filename_cpu(*handle)._shared_decref()
    if (
        gpu_of_storage(storage) is None
    ):  # it may be one that this process has opened already
        setattr(storage, TAG, Allocation(gpu, 0))
        setattr(storage, RECEIVED, True)
    return storage


@replaces(UntypedStorage, "_release_ipc_counter_cuda", when=_has_handles)
def release(*unused: Any, **also_unused: Any) -> None:
    """The host counts for itself."""


@checks(Tensor, "__dlpack__")  # which other libraries call
@checks(torch.utils.dlpack, "to_dlpack")
def exported(name: str, tensor: Tensor, **kwargs) -> None:
    if gpu := gpu_of(tensor):
        raise BufferError(WORDS["sharing"]["dlpack"].format(gpu.device))


@replaces((torch, torch.utils.dlpack), "from_dlpack")
def from_dlpack(
    original: Callable, ext_tensor: Any, *, device: Any = None, copy: bool | None = None
) -> Tensor:
    """`torch.from_dlpack`, which takes torch's own tensors too: they share their memory."""
    if not isinstance(ext_tensor, Tensor) or gpu_of(ext_tensor) is None:
        return original(ext_tensor, device=device, copy=copy)
    _export(ext_tensor)  # whose refusals hold here as well
    shared = ext_tensor.detach()
    moved = shared if device is None else shared.to(device)
    return moved.clone() if copy and moved is shared else moved
