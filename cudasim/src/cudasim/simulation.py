"""Begin and end a simulation."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cudasim import config
from cudasim.backends import accelerator, cuda, mps, streams
from cudasim.clock.clock import Clock
from cudasim.device.gpu import Machine
from cudasim.dispatch import autocast, booking
from cudasim.dispatch.mode import mode_for
from cudasim.dispatch.races import Order, checked
from cudasim.patches import classes, compiler, factories, guards, readings
from cudasim.patches.tensor import patch_tensor
from cudasim.patching import Patches, patch_functions
from cudasim.session import session
from cudasim.timing.sheets import find_sheet
from cudasim.words import WORDS

TESTED = ("2.11", "2.14")  # the first and last minor version of torch that were tested

BACKENDS = {"cuda": cuda.patch_cuda, "mps": mps.patch_mps}
# What is done to torch, in this order.
PATCHES: tuple[Callable[[Patches], None], ...] = (
    factories.patch_factories,
    patch_functions,  # some of which stand before factories
    patch_tensor,
    accelerator.patch_accelerator,
    streams.patch_streams,
    classes.patch_classes,
    autocast.patch_autocast,
    guards.patch_guards,
    compiler.patch_compile,
    lambda patches: BACKENDS[session.type.name](patches),
    compiler.patch_torchscript,  # after the functions that it lists
    readings.patch_readings,
)


def is_enabled() -> bool:
    """True while GPUs are simulated."""
    return session.mode is not None


def enable(
    gpus: int | None = None,
    card: str | None = None,
    force: bool = False,
    device_type: str = "cuda",
    clock: str | None = None,
    races: str | None = None,
) -> None:
    """Let PyTorch see `gpus` simulated GPUs of the model `card`; one line says so.

    `device_type` is what PyTorch calls them: `cuda`, or `mps` (Apple's; a machine has one). None is
    the usual number and card: two T4 for `cuda`. With `clock="modelled"` times are those of the
    card's data sheet, the same on every run; None leaves the machine's. With `races="raise"` or
    `"warn"` accesses to one memory that no wait puts in order are errors, or warnings.
    Does nothing, and says so, where as many real ones are there, unless `force`. Programs started
    from here on see the GPUs too: until `disable`, CUDASIM_GPUS and similar variables are set.
    Raises ValueError for a number that makes no sense, an unknown card, type, clock or action at
    races, and under a clock for a card without a data sheet; RuntimeError if a simulation is
    running or this process has used a real GPU."""
    quiet = config.quiet()
    line = begin(config.parse(gpus, card, device_type, force, clock=clock, races=races))
    if line and not quiet:
        print(line)


def begin(wanted: config.Config, inherited: bool = False) -> str | None:
    """Simulate what is `wanted`; returns the line with which `enable` says so. Raises as it does.
    `inherited`: the environment asked for it. A program that then asks for the same, as a main
    module that runs again in a spawned process, has it already."""
    type, number, card = wanted.type, wanted.gpus, wanted.find_card()
    if is_enabled():
        had = session.inherited
        if had and had[:2] == (number, card.name) and wanted.clock in (None, had[2]):
            return None
        raise RuntimeError("GPUs are simulated already; call cudasim.disable() first")
    real = getattr(torch, type.name).device_count()
    if real >= number and not wanted.force:
        here = f"{real} real {type.word(real)} {'is' if real == 1 else 'are'} here"
        return f"cudasim: {here}, nothing is simulated (force=True does)"
    if torch.cuda.is_initialized() or torch.xpu.is_initialized():
        raise RuntimeError(WORDS["simulation"]["used"])
    _warn_if_untested()
    config.forks()  # raises for what cannot be
    clock = None
    if wanted.clock is not None:
        booking.forget()
        clock = Clock(
            find_sheet(wanted.card), [f"{type.name}:{index}" for index in range(number)]
        )
    session.reset(type, clock)
    try:
        for name, value in config.for_children(wanted, inherited).items():
            session.patches.replace_item(os.environ, name, value)
        session.machine = Machine(card, number, modelled=clock is not None)
        session.card = wanted.card
        session.look()
        _read_allocator_settings()
        for patch in PATCHES:
            patch(session.patches)
        session.look_for_races(Order(wanted.races) if wanted.races else None)
        mode = mode_for(type, clock)
        mode = checked(mode)() if wanted.races else mode()
        mode.__enter__()
    except BaseException:
        _end()
        raise
    session.mode, session.home = mode, threading.get_ident()
    session.inherited = (number, card.name, wanted.clock) if inherited else None
    said = f"{number} simulated {type.word(number)} ({card.name})"
    said += ", times modelled" if wanted.clock else ""
    if len(session.gpus) != number:
        said += f", of which {config.VISIBLE}={os.environ[config.VISIBLE]!r} shows "
        said += str(len(session.gpus) or "none")
    return f"cudasim: {said}; real values, computed on the CPU"


def _read_allocator_settings() -> None:
    names = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"
    new, old = (os.environ.get(name, "").strip() for name in names)
    try:
        session.settings.change(new or old)
    except (NotImplementedError, ValueError) as error:
        warnings.warn(f"{error}; it is left out", stacklevel=5)


@cache  # once in a process
def _warn_if_untested() -> None:
    versions = *TESTED, torch.__version__
    first, last, version = (tuple(map(int, each.split(".")[:2])) for each in versions)
    if not first <= version <= last:
        warnings.warn(WORDS["simulation"]["untested"].format(*versions), stacklevel=4)


def disable() -> None:
    """End the simulation, if one is running: torch is as it was, simulated tensors are unusable.
    Raises RuntimeError in another thread than that which called `enable`, or within a dispatch mode
    entered since: both would leave torch patched."""
    if not is_enabled():
        return
    if threading.get_ident() != session.home:
        raise RuntimeError(
            "call cudasim.disable() in the thread that called cudasim.enable()"
        )
    if _get_current_dispatch_mode() is not session.mode:
        raise RuntimeError(
            "leave the dispatch modes entered since cudasim.enable() first"
        )
    session.mode.__exit__(None, None, None)
    _end()


def _end() -> None:
    session.patches.restore()
    session.reset(session.type)


@contextmanager
def simulate(
    gpus: int | None = None,
    card: str | None = None,
    force: bool = False,
    device_type: str = "cuda",
    clock: str | None = None,
    races: str | None = None,
) -> Iterator[None]:
    """Simulate GPUs for the length of a `with` block; the arguments are those of `enable`."""
    before = session.mode
    enable(gpus, card, force, device_type, clock, races)
    try:
        yield
    finally:
        if session.mode is not before:  # it began here
            disable()
