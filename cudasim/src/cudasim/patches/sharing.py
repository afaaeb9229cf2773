"""Memory of simulated GPUs shared with other processes, and with libraries by DLPack.

The handle that the methods of storages make is one of the host's shared memory. The
process that receives it does not count the memory.
"""

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
from cudasim.torch_private import tensors as private
from cudasim.words import WORDS

RECEIVED = "_cudasim_received"  # the mark of a storage that another process has sent
MESSAGES = WORDS["sharing"]

_export = Tensor.__dlpack__  # torch's own


def _has_handles() -> bool:
    return session.type is DEFAULT


def _has_no_handles() -> bool:
    return not _has_handles()


@checks(*private.SHARE_BY_DESCRIPTOR, when=_has_no_handles)
@checks(*private.SHARE_BY_FILE, when=_has_no_handles)
def on_host(name: str, self: UntypedStorage, *args, **kwargs) -> None:
    if gpu_of_storage(self) is not None:
        raise RuntimeError(f"{name.removesuffix('cpu_')}: only available on CPU")


@replaces(UntypedStorage, "is_shared", when=_has_handles)
def is_shared(original: Callable, self: UntypedStorage) -> bool:
    return gpu_of_storage(self) is not None or original(self)


@replaces(*private.SHARE_ON_GPU, when=_has_handles)
def share(original: Callable, self: UntypedStorage) -> tuple:
    """Return what another process needs to open a storage.

    That is (device, handle, bytes). The simulation does not use the rest: (offset,
    counter handle, counter offset, event handle, whether to wait for the event).
    """
    gpu = gpu_of_storage(self)
    if gpu is None:
        raise RuntimeError("_share_cuda_: only available on CUDA")
    if getattr(self, RECEIVED, False):
        raise RuntimeError(MESSAGES["received"])
    if sys.platform == "win32":
        raise RuntimeError(MESSAGES["windows"])
    return gpu.index, _share_on_host(self), self.nbytes(), 0, b"", 0, b"", False


def _share_on_host(storage: UntypedStorage) -> tuple | None:
    """Return the handle of the host's shared memory; None if there is nothing to share."""
    if not storage.nbytes():
        return None
    if get_sharing_strategy() == "file_system":
        handle = private.SHARE_BY_FILE.read()(storage)
        private.keep_shared_file(storage)  # until the receiver has opened it
        return handle
    descriptor, size = private.SHARE_BY_DESCRIPTOR.read()(storage)
    return reduction.DupFd(descriptor), size


@replaces(*private.OPEN_SHARED_ON_GPU, when=_has_handles)
def open_shared(
    original: Callable, device: int, handle: tuple, *unused: Any
) -> UntypedStorage:
    gpu = session.gpu(device)
    if len(handle) == 2:
        storage = reductions.rebuild_storage_fd(UntypedStorage, *handle)
    else:
        storage = private.let_go_shared_file(private.open_shared_file(*handle))
    # It may be one that this process has opened already.
    if gpu_of_storage(storage) is None:
        setattr(storage, TAG, Allocation(gpu, 0))
        setattr(storage, RECEIVED, True)
    return storage


@replaces(*private.RELEASE_SHARED_ON_GPU, when=_has_handles)
def release(*unused: Any, **also_unused: Any) -> None:
    """Do nothing: the host counts for itself."""


@checks(Tensor, "__dlpack__")  # which other libraries call
@checks(torch.utils.dlpack, "to_dlpack")
def exported(name: str, tensor: Tensor, **kwargs) -> None:
    gpu = gpu_of(tensor)
    if gpu is not None:
        raise BufferError(MESSAGES["dlpack"].format(gpu.device))


@replaces((torch, torch.utils.dlpack), "from_dlpack")
def from_dlpack(
    original: Callable, ext_tensor: Any, *, device: Any = None, copy: bool | None = None
) -> Tensor:
    """Read a tensor; torch's own, too, with which the result shares its memory."""
    if not isinstance(ext_tensor, Tensor) or gpu_of(ext_tensor) is None:
        return original(ext_tensor, device=device, copy=copy)

    _export(ext_tensor)  # refuses what it refuses anywhere
    shared = ext_tensor.detach()
    result = shared if device is None else shared.to(device)
    if copy and result is shared:
        return result.clone()
    return result
