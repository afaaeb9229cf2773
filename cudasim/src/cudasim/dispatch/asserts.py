"""Assertions in kernels: what the CPU refuses at once, CUDA finds in the middle of a kernel. The
GPU's context is lost with it: whatever needs that GPU afterwards fails with the same error. It is
told at once, as with CUDA_LAUNCH_BLOCKING=1; the CPU's error, with the index, is its cause."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.cuda._utils import _get_device_index

from cudasim.device.gpu import GPU
from cudasim.dispatch.arguments import given, tensors_in
from cudasim.dispatch.operators import Rule, around, name_of
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.tags import gpu_of
from cudasim.session import session
from cudasim.words import WORDS

# What the CPU says where CUDA's kernel stops.
ASSERTED = re.compile("|".join(WORDS["asserted"]["patterns"]))


@around(*TABLES["asserting"], idle=lambda args: True)
def asserting(inner: Rule, func: Callable, args: tuple, kwargs: dict) -> Any:
    """What the CPU refuses stops the GPU, where the operator's kernel for CUDA asserts it."""
    try:
        return inner(func, args, kwargs)
    except (IndexError, RuntimeError) as error:
        words, options = session.type.assertion(), given(func, args, kwargs)
        gpus = {gpu_of(tensor) for tensor in tensors_in((*args, *kwargs.values()))} - {
            None
        }
        several = options.get("replacement") and options["num_samples"] > 1
        on_host = (
            name_of(func) == "multinomial" and not several
        )  # where CUDA reads them first
        if words is None or not gpus or on_host or not ASSERTED.search(str(error)):
            raise
        lose(gpus.pop())
        raise words from error


def lose(gpu: GPU) -> None:
    """Refuse what needs `gpu` from now on, waits for it included, until the simulation ends."""
    if all(each.lost is None for each in session.gpus):
        for owner in (
            torch.cuda,
            torch.accelerator,
            torch.cuda.Stream,
            torch.cuda.Event,
        ):
            session.patches.wrap(owner, "synchronize", synchronize)
    gpu.lose(session.type.assertion)


def synchronize(original: Callable, of: Any = None) -> None:
    if not isinstance(of, torch.cuda.Stream | torch.cuda.Event):
        session.gpu(_get_device_index(of, optional=True)).check()
    elif of.device is not None:  # an event has one when it is recorded
        session.gpu(of.device.index).check()
    original(of)
