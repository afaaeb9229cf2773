"""What people write as a device, read as a simulated GPU, the CPU, or something else."""

from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.session import session

ELSEWHERE = (
    object()
)  # what is left to PyTorch: `meta`, for example, and what is no device at all


def resolve(device: Any) -> GPU | object | None:
    """The GPU that `device` names, None for the CPU, ELSEWHERE for `meta` and what is no device.
    Raises PyTorch's error for a GPU that is not there, and for a text that names no device."""
    if isinstance(device, int) and not isinstance(device, bool):
        if device < 0:
            raise RuntimeError("Device index must not be negative")
        return session.gpu(device)
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        return ELSEWHERE
    if device.type == session.type.name:
        return session.gpu(device.index)
    return None if device.type == "cpu" else ELSEWHERE


def fakes() -> bool:
    """True under FakeTensorMode, whose tensors have no memory and name any device themselves."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
