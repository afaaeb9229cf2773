"""The first use of a GPU, at which CUDA reads CUDA_VISIBLE_DEVICES; and what processes that were
forked after it may no longer do (torch/cuda/__init__.py, `_lazy_init`)."""

import os
from functools import partial

import torch
from torch import cuda

from cudasim import config
from cudasim.device.types.cuda import NOT_INITIALIZED, runtime_error
from cudasim.patching import Patches
from cudasim.session import session


def patch_first_use(patches: Patches) -> None:
    instead = {
        "is_initialized": lambda: session.used,
        "_is_in_bad_fork": lambda: session.forked,
        "_lazy_init": session.use,
        "_lazy_call": lambda action, **when: action(),  # generators can be seeded before
    }
    for owner in (cuda, cuda.memory, cuda.random):
        for name in instead.keys() & vars(owner).keys():
            patches.replace(owner, name, instead[name])
    patches.replace(cuda, "_initialized", session.used)  # as checkpointing reads it
    patches.replace(torch._C, "_cuda_isInBadFork", lambda: session.forked)


def _after_fork() -> None:
    """In a process that was forked: what the other had begun to use is lost."""
    if session.used and not session.type.survives_fork and not config.forks():
        session.used, session.forked = False, True
        cuda._initialized = False
        for gpu in session.gpus:
            gpu.lose(partial(runtime_error, NOT_INITIALIZED))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
