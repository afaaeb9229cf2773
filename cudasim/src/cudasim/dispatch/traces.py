"""Callbacks of `torch.cuda._gpu_trace`, by which tools such as PyTorch's sanitizer follow a GPU."""

from typing import Any

import torch
import torch.cuda._gpu_trace as gpu_trace

from cudasim.session import session


def activate() -> None:
    session.traced = True
    session.watch()


def fire(event: str, *args: Any) -> None:
    if session.traced:
        getattr(gpu_trace, f"{event}Callbacks").fire_callbacks(*args)


class Followed(int):
    """The address of a storage's memory: it tells when that is free again."""

    def __del__(self) -> None:
        fire("MemoryDeallocation", int(self))


def follow(storage: torch.UntypedStorage) -> None:
    if session.traced and storage.data_ptr():
        fire("MemoryAllocation", storage.data_ptr())
        storage._cudasim_followed = Followed(storage.data_ptr())
