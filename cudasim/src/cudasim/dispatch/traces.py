"""The callbacks of `torch.cuda._gpu_trace`, with which tools follow what a GPU does.

PyTorch's own sanitizer for CUDA is one of these tools.
"""

from typing import Any

import torch

from cudasim.session import session
from cudasim.torch_private.devices import gpu_trace

FOLLOWED = "_cudasim_followed"  # the attribute of a storage that holds its address


def activate() -> None:
    """Call the callbacks from now on."""
    session.traced = True
    session.update_watching()


def fire(event: str, *args: Any) -> None:
    """Call the callbacks that are registered for `event`, if callbacks are activated."""
    if session.traced:
        callbacks = getattr(gpu_trace, f"{event}Callbacks")
        callbacks.fire_callbacks(*args)


class FollowedAddress(int):
    """The address of a storage; it reports when the storage gives its memory back."""

    def __del__(self) -> None:
        fire("MemoryDeallocation", int(self))


def follow(storage: torch.UntypedStorage) -> None:
    """Report that `storage` has got its memory, and later that it gave it back."""
    if not session.traced:
        return
    address = storage.data_ptr()
    if address:
        fire("MemoryAllocation", address)
        setattr(storage, FOLLOWED, FollowedAddress(address))
