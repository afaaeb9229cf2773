"""Which backend a program requested for its process groups: gloo stands for NCCL."""

from typing import Any

import torch
import torch.distributed as dist

from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.session import session


def has_nccl(backend: Any) -> bool:
    """True for `nccl`, `cuda:nccl`, `cpu:gloo,cuda:nccl`: one gloo serves CPU and GPUs."""
    pairs = str(backend).lower().split(",")
    return "nccl" in [pair.split(":")[-1] for pair in pairs]


def requested_backend(group: Any = None) -> str | None:
    """The backend requested for a group (None: the default one) that has NCCL, else None."""
    group = group or dist.group.WORLD
    return session.groups.get(group.group_name) if isinstance(group, dist.ProcessGroup) else None


def only_nccl(group: Any = None) -> bool:
    """True for a group (None: the default one) that would have no backend for the CPU."""
    requested = requested_backend(group)
    return requested is not None and "cpu" not in requested


def bound_device(device: Any) -> GPU | None:
    """The GPU that `device_id=` names. Raises ValueError, in torch's words, if it cannot be."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None or device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= torch.cuda.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than "
            f"the number of accelerators available: {torch.cuda.device_count()}."
        )
    return resolve(device)
