"""The first use of a GPU, and what processes that were forked after it may no longer do.

CUDA reads CUDA_VISIBLE_DEVICES at its first use, and does not survive a fork after it; before,
a program may set the variable and fork (torch/cuda/__init__.py, `_lazy_init`).
"""

import os
from collections.abc import Callable
from typing import Any

import torch

from cudasim import config
from cudasim.patching import Patches
from cudasim.session import session


def patch_first_use(patches: Patches) -> None:
    """Let `torch.cuda` begin when a GPU is first used, and tell of a fork."""
    module = getattr(torch, session.type.name)
    instead = {
        "is_initialized": lambda: session.used,
        "_is_in_bad_fork": lambda: session.forked,
        "_lazy_init": begin,
        "_lazy_call": at_once,
    }
    for owner in (module, module.memory, module.random):
        for name in instead.keys() & vars(owner).keys():
            patches.replace(owner, name, instead[name])
    patches.replace(module, "_initialized", session.used)  # as checkpointing reads it
    patches.replace(torch._C, f"_{session.type.name}_isInBadFork", lambda: session.forked)


def begin() -> None:
    """Use the GPUs. Raises PyTorch's error if there are none, and in a forked process."""
    if not session.used:
        session.use()


def at_once(action: Callable[[], Any], **when: Any) -> None:
    """What PyTorch would put off until the first use: generators can be seeded before it."""
    action()


def _after_fork() -> None:
    """In a process that was forked: what the other had begun to use is lost."""
    if not session.used or session.type.survives_fork or config.forks():
        return
    session.used, session.forked = False, True
    getattr(torch, session.type.name)._initialized = False
    for gpu in session.gpus:
        gpu.lose(session.type.lost_by_fork)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
