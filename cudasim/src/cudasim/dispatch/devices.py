"""How what a program writes as a device is read: a simulated GPU, the CPU, or another."""

from functools import lru_cache
from typing import Any

import torch

from cudasim.device.gpu import GPU
from cudasim.session import session
from cudasim.torch_private.dispatch import active_mode, fake_mode_key, proxy_mode_key

# What `resolve` leaves to PyTorch: `meta`, for example, and what is not a device.
ELSEWHERE = object()


def resolve(device: Any) -> GPU | object | None:
    """Return the GPU that `device` names, None for the CPU, or ELSEWHERE for anything else.

    Raises PyTorch's error for a GPU that does not exist and for a string that is not
    the name of a device.
    """
    if isinstance(device, str):
        device = _parse(device)
    if isinstance(device, torch.device):
        if device.type == session.type.name:
            return session.gpu(device.index)
        return None if device.type == "cpu" else ELSEWHERE

    if isinstance(device, int) and not isinstance(device, bool):
        if device < 0:
            raise RuntimeError("Device index must not be negative")
        return session.gpu(device)
    return ELSEWHERE


@lru_cache(maxsize=64)
def _parse(text: str) -> torch.device:
    """Return the device of that name. `torch.device` takes a microsecond to read it."""
    return torch.device(text)


def in_fake_mode() -> bool:
    """Return whether FakeTensorMode is active: its tensors keep their own device."""
    return active_mode(fake_mode_key) is not None


def in_graph_trace() -> bool:
    """Return whether `make_fx` records a graph, in which factories keep their device."""
    return active_mode(proxy_mode_key) is not None
