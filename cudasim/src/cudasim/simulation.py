"""Begin and end a simulation."""

import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures.thread import _WorkItem
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import (
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
)

from cudasim import config
from cudasim.backends.accelerator import patch_accelerator
from cudasim.backends.cuda.api import patch_cuda
from cudasim.backends.cuda.comm import patch_parallel
from cudasim.backends.cuda.distributed import patch_distributed
from cudasim.backends.cuda.publishing import publish
from cudasim.backends.mps import patch_mps
from cudasim.backends.streams import patch_streams
from cudasim.backends.xpu import patch_xpu
from cudasim.device import gpus
from cudasim.device.gpus import GPU
from cudasim.device.specs import Card, find_card
from cudasim.device.types import check_number, find_kind
from cudasim.dispatch.autocast import patch_casting
from cudasim.dispatch.random import patch_randomness
from cudasim.dispatch.rules import Rule, rule_for
from cudasim.patches.autograd import patch_backward
from cudasim.patches.classes import patch_integers
from cudasim.patches.compiler import patch_compiling
from cudasim.patches.factories import patch_factories
from cudasim.patches.functional import patch_composites
from cudasim.patches.host_types import patch_host_types
from cudasim.patches.layers import patch_layers
from cudasim.patches.optim import patch_grouping
from cudasim.patches.pinning import patch_pinning
from cudasim.patches.scripting import patch_scripting
from cudasim.patches.sharing import patch_sharing, patch_sharing_by_handle, refuse_sharing
from cudasim.patches.sparse import patch_sparse
from cudasim.patches.storage import patch_storages
from cudasim.patches.subclasses import patch_wrappers
from cudasim.patches.tensor import patch_attributes
from cudasim.patching import Patches

TESTED = ("2.11", "2.13")  # the first and last minor version of torch that were tested

# What each type of device has that the others have not. DataParallel, NCCL, nvidia-smi and memory
# shared by handles are CUDA's alone.
OWN = {
    "cuda": (patch_cuda, publish, patch_parallel, patch_distributed, patch_sharing_by_handle),
    "mps": (patch_mps, refuse_sharing),
    "xpu": (patch_xpu, refuse_sharing),
}

_patches = Patches()
_rule: Rule | None = None
_home: int | None = None  # the thread that began the simulation
_inherited: tuple | None = None  # (number, card name) of one that the environment asked for
_warned = False


def is_enabled() -> bool:
    """True while GPUs are simulated."""
    return _rule is not None


def enable(
    gpus: int | None = None,
    card: str | None = None,
    force: bool = False,
    device_type: str = "cuda",
) -> None:
    """Let PyTorch see `gpus` simulated GPUs of the model `card`; one line says so.

    `device_type` is what PyTorch calls them: `cuda`, `mps` (Apple's; a machine has one) or `xpu`
    (Intel's). None is the usual number and card: two T4 for `cuda`.

    Does nothing, and says so, where as many real ones are there, unless `force`. Programs
    started from here on see the GPUs too: CUDASIM_GPUS and its like are set until `disable`.
    Raises ValueError for a number that makes no sense or an unknown card or type, RuntimeError
    if a simulation is running or this process has used a real GPU.
    """
    quiet = config.quiet()
    line = begin(gpus, card, force, device_type)
    if line and not quiet:
        print(line)


def begin(
    gpus: int | None,
    card: str | None,
    force: bool,
    device_type: str = "cuda",
    inherited: bool = False,
) -> str | None:
    """What `enable` does; returns the line that it says instead of printing it.

    `inherited` tells that the environment asked. A program that then asks for the same
    itself, as one does whose main module runs again in a spawned process, has it already.
    """
    global _inherited
    number, chosen = check(gpus, card, device_type)
    if _rule is not None:
        if _inherited == (number, chosen.name):
            return None
        raise RuntimeError("GPUs are simulated already; call cudasim.disable() first")
    real = getattr(torch, device_type).device_count()
    word = chosen.kind.word
    if real >= number and not force:
        here = f"{real} real {word(real)} {'is' if real == 1 else 'are'} here"
        return f"cudasim: {here}, nothing is simulated (force=True does)"
    if torch.cuda.is_initialized() or torch.xpu.is_initialized():
        raise RuntimeError(
            "this process has used a real GPU; call cudasim.enable() before it does, "
            "in a new process"
        )
    _warn_if_untested()
    _begin([GPU(index, chosen) for index in range(number)], force)
    _inherited = (number, chosen.name) if inherited else None
    said = f"{number} simulated {word(number)} ({chosen.name})"
    return f"cudasim: {said}; real values, computed on the CPU"


def check(gpus: int | None, card: str | None, device_type: str) -> tuple[int, Card]:
    """The number and the card that `enable` would begin with, or ValueError if it could not."""
    kind = find_kind(device_type)
    number = check_number(kind.usual if gpus is None else gpus, kind)
    return number, find_card(kind.card if card is None else card, kind)


def _warn_if_untested() -> None:
    """Say once that this torch is not among those that the package was tested with."""
    global _warned
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    first, last = (tuple(int(part) for part in bound.split(".")) for bound in TESTED)
    if not _warned and not first <= version <= last:
        _warned = True
        warnings.warn(
            f"cudasim is tested with torch {TESTED[0]} to {TESTED[1]}, this is "
            f"{torch.__version__}; 'python -m cudasim.survey' tells what holds here",
            stacklevel=4,
        )


def _begin(new: list[GPU], force: bool) -> None:
    global _rule, _home
    gpus.reset(new)
    card = new[0].card
    _rule = rule_for(card.kind)()
    try:
        patch_attributes(_patches)
        patch_backward(_patches)
        patch_composites(_patches)
        patch_factories(_patches)
        patch_accelerator(_patches)
        patch_streams(_patches)
        patch_randomness(_patches)
        patch_integers(_patches)
        patch_host_types(_patches)
        patch_casting(_patches)
        patch_layers(_patches)
        patch_grouping(_patches)
        patch_pinning(_patches)
        patch_compiling(_patches)
        patch_storages(_patches)
        patch_wrappers(_patches)
        patch_sparse(_patches)
        patch_sharing(_patches)
        for patch in OWN[card.kind.type]:
            patch(_patches)
        patch_scripting(_patches)  # after the functions that it lists
        for owner, name in ((threading.Thread, "_bootstrap_inner"), (_WorkItem, "run")):
            _patches.replace(owner, name, _in_thread(getattr(owner, name)))
        told = config.for_children(len(new), card.name, force, card.kind.type)
        for name, value in told.items():
            _patches.replace_item(os.environ, name, value)
        _rule.__enter__()
        _home = threading.get_ident()
    except BaseException:
        _rule = None
        _patches.restore()
        gpus.reset([])
        raise


def _in_thread(original: Any) -> Any:
    """Run a thread, or an item of a pool that is older than the simulation, under the rule.

    Dispatch modes are per thread. `Thread.run` is not enough: many subclasses have their own.
    """

    def run(self: Any, *args: Any) -> None:
        stack = _get_current_dispatch_mode_stack()
        if _rule is None or any(isinstance(mode, Rule) for mode in stack):
            return original(self, *args)
        with type(_rule)():
            return original(self, *args)

    return run


def disable() -> None:
    """End the simulation: torch is as it was, tensors on simulated GPUs are unusable.

    Does nothing if none is running. Raises RuntimeError in another thread than that which
    called `enable`, or within a dispatch mode entered since: both would leave torch patched.
    """
    global _rule, _inherited
    if _rule is None:
        return
    if threading.get_ident() != _home:
        raise RuntimeError("call cudasim.disable() in the thread that called cudasim.enable()")
    if _get_current_dispatch_mode() is not _rule:
        raise RuntimeError("leave the dispatch modes entered since cudasim.enable() first")
    _rule.__exit__(None, None, None)
    _rule = _inherited = None
    _patches.restore()
    gpus.reset([])


@contextmanager
def simulate(
    gpus: int | None = None,
    card: str | None = None,
    force: bool = False,
    device_type: str = "cuda",
) -> Iterator[None]:
    """Simulate GPUs for the length of a `with` block; the arguments are those of `enable`."""
    before = _rule
    enable(gpus, card, force, device_type)
    try:
        yield
    finally:
        if _rule is not before:  # it began here
            disable()
