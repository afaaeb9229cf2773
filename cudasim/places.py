"""What people write as a device, read as a simulated GPU, the CPU, or something else."""

from typing import Any

import torch

from cudasim import gpus
from cudasim.gpus import GPU


class Elsewhere:
    """A device that is not simulated and not the CPU: `meta`, for example."""


ELSEWHERE = Elsewhere()


def place(device: Any) -> GPU | Elsewhere | None:
    """The GPU that `device` names, None for the CPU, ELSEWHERE for `meta` and its like.

    `device` is a torch.device, a string, or an index. Raises CUDA's error if it names a GPU
    that is not there, and torch's own if it is no device.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return gpus.get(device)
    if not isinstance(device, torch.device):
        device = torch.device(device)
    if device.type == "cuda":
        return gpus.get(device.index)
    return None if device.type == "cpu" else ELSEWHERE


def fakes() -> bool:
    """True under FakeTensorMode, whose tensors have no memory and name any device themselves."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None
