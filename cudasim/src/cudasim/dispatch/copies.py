"""Copies between devices: which operators make them, and whether the host waits for one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cudasim.device.gpu import GPU
from cudasim.dispatch.host_memory import note_copy
from cudasim.dispatch.pinning import is_pinned
from cudasim.dispatch.tags import storage_of
from cudasim.session import session
from cudasim.torch_private.operators import to_copy

aten = torch.ops.aten

# The operators that copy numbers from one device to another.
COPIES = (aten.copy_.default, to_copy)
# Bytes of pageable memory that CUDA copies before it returns, so that it need not wait
# for the stream: https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html.
STAGED_SIZE = 64 * 2**10


class Copy(NamedTuple):
    """What one call of an operator in COPIES has copied."""

    source: Tensor
    target: Tensor
    non_blocking: bool

    @property
    def size(self) -> int:
        """The bytes that travelled; another dtype is converted before they do."""
        return self.target.numel() * self.target.element_size()


def copy_of(func: Callable, args: tuple, kwargs: dict, out: Any) -> Copy:
    """Return the copy that a call of an operator in COPIES made."""
    non_blocking = bool(kwargs.get("non_blocking", False))
    if func is not aten.copy_.default:
        return Copy(args[0], out, non_blocking)
    if len(args) > 2:
        non_blocking = args[2]
    target, source = args[:2]
    return Copy(source, target, non_blocking)


def keep_pinned(copy: Copy, source: GPU | None, target: GPU | None) -> None:
    """Keep pinned memory until its copy from `source` to `target` is done.

    PyTorch records an event for each `non_blocking` one (ATen/native/cuda/Copy.cu).
    """
    gpu = target or source
    crosses = (source is None) is not (target is None)
    host = copy.source if source is None else copy.target
    if copy.non_blocking and crosses and host.layout is torch.strided:
        note_copy(storage_of(host), session.stream_key(gpu.index))


def host_waits(host: Tensor, to_gpu: bool, size: int, non_blocking: bool) -> bool:
    """Return whether the host waits for a copy between its tensor `host` and a GPU.

    PyTorch waits unless the copy is `non_blocking`. If it is, CUDA still waits where the
    memory is pageable, except for small copies to a GPU, of which the driver keeps the
    numbers. PyTorch knows nothing of CUDA's wait, so `set_sync_debug_mode` does not
    report it: `waiting.watch_copy` leaves it out.
    """
    if not non_blocking:
        return True
    if is_pinned(host):
        return False
    is_staged = to_gpu and size <= STAGED_SIZE
    return not is_staged
