"""Begin and end a simulation."""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import TracebackType
from typing import Any

import torch

from cudasim import config
from cudasim.backends import accelerator, backward, cuda, mps, streams
from cudasim.clock.clock import Clock
from cudasim.device.gpu import Machine
from cudasim.device.specs import Card
from cudasim.dispatch import autocast, booking
from cudasim.dispatch.mode import mode_for
from cudasim.dispatch.races import Order, with_race_mode
from cudasim.importing import after_import
from cudasim.installed import minor_version
from cudasim.notices import SimulationWarning, exempt_from_errors
from cudasim.patches import attention, classes, compiler, factories, guards, readings
from cudasim.patches.tensor import patch_tensor
from cudasim.patching import Patches, patch_functions
from cudasim.session import session
from cudasim.timing.sheets import find_sheet
from cudasim.torch_private import TRIED
from cudasim.torch_private.dispatch import TorchDispatchMode, innermost_mode
from cudasim.tracebacks import hide_our_lines
from cudasim.words import WORDS

IPYTHON = "IPython.core.interactiveshell"  # shows the errors of a notebook's cells
TESTED = (TRIED[0], TRIED[-1])  # the first and last minor versions of torch

BACKENDS = {"cuda": cuda.patch_cuda, "mps": mps.patch_mps}


def patch_backend(patches: Patches) -> None:
    """Patch the module of the type of device, such as `torch.cuda`."""
    BACKENDS[session.type.name](patches)


# What is done to torch, in this order.
PATCHES: tuple[Callable[[Patches], None], ...] = (
    factories.patch_factories,
    patch_functions,  # some of them run before factories
    patch_tensor,
    accelerator.patch_accelerator,
    streams.patch_streams,
    backward.patch_backward,
    classes.patch_classes,
    attention.patch_attention,
    autocast.patch_autocast,
    guards.patch_guards,
    patch_backend,
    readings.patch_readings,
    compiler.patch_torchscript,  # after the functions that these two list
    compiler.patch_compile,
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

    `device_type` is what PyTorch calls them: `cuda`, or `mps` (Apple's; a machine has
    one). None stands for the usual number and card: two T4 for `cuda`. With
    `clock="modelled"` times are those of the card's data sheet, the same on every run;
    None leaves the machine's own. With `races="raise"` or `"warn"`, accesses to the same
    memory that no wait puts in order are errors or warnings.

    Where as many real GPUs are there, nothing is simulated unless `force` is true, and
    the line says that. Child processes see the GPUs too: until `disable`, CUDASIM_GPUS
    and similar variables are set.

    Raises ValueError for a number that makes no sense, for an unknown card, type, clock
    or action at races, and under a clock for a card without a data sheet; RuntimeError if
    a simulation is running, or this process has used a real GPU.
    """
    is_quiet = config.is_quiet()  # before the simulation sets the variable
    wanted = config.parse(gpus, card, device_type, force, clock=clock, races=races)
    line = begin(wanted)
    if line and not is_quiet:
        print(line)


def begin(wanted: config.Config, inherited: bool = False) -> str | None:
    """Simulate what is `wanted`; return the line with which `enable` says so.

    `inherited` says that the environment asked for it. A program that then asks for the
    same has it already, such as a main module that runs again in a spawned process.
    Raises as `enable` does.
    """
    card = wanted.find_card()
    if is_enabled():
        if _has_inherited(wanted, card):
            return None
        raise RuntimeError("GPUs are simulated already; call cudasim.disable() first")
    type = wanted.type
    real = getattr(torch, type.name).device_count()
    if real >= wanted.gpus and not wanted.force:
        verb = "is" if real == 1 else "are"
        there = f"{real} real {type.word(real)} {verb} here"
        return f"cudasim: {there}, nothing is simulated (force=True does)"
    if torch.cuda.is_initialized() or torch.xpu.is_initialized():
        raise RuntimeError(WORDS["simulation"]["used"])
    exempt_from_errors()
    _warn_if_untested()
    config.may_fork()  # raises for an unknown value

    session.reset(type, _make_clock(wanted))
    try:
        mode = _begin(wanted, card, inherited)
    except BaseException:
        _end()
        raise
    session.mode = mode
    session.home_thread = threading.get_ident()
    if inherited:
        session.inherited = (wanted.gpus, card.name, wanted.clock)
    return _announcement(wanted, card)


def _has_inherited(wanted: config.Config, card: Card) -> bool:
    """Return whether the environment asked for the simulation that is `wanted`."""
    if session.inherited is None:
        return False
    number, name, clock = session.inherited
    is_same = number == wanted.gpus and name == card.name
    return is_same and wanted.clock in (None, clock)


def _make_clock(wanted: config.Config) -> Clock | None:
    if wanted.clock is None:
        return None
    booking.forget()
    names = [f"{wanted.type.name}:{index}" for index in range(wanted.gpus)]
    return Clock(find_sheet(wanted.card), names)


def _begin(wanted: config.Config, card: Card, inherited: bool) -> TorchDispatchMode:
    """Patch torch, and enter the dispatch mode that sees every operation."""
    for name, value in config.for_children(wanted, inherited).items():
        session.patches.replace_item(os.environ, name, value)
    is_modelled = session.clock is not None
    session.machine = Machine(card, wanted.gpus, modelled=is_modelled)
    session.card = wanted.card
    session.find_gpus()
    for patch in PATCHES:
        patch(session.patches)
    show_error = partial(_show_error, sys.excepthook)
    session.patches.replace_item(vars(sys), "excepthook", show_error)
    session.patches.finally_do(after_import(IPYTHON, _patch_ipython))

    mode_class = mode_for(wanted.type, session.clock)
    if wanted.races:
        session.look_for_races(Order(wanted.races))
        mode_class = with_race_mode(mode_class)
    mode = mode_class()
    mode.__enter__()
    return mode


def _show_error(
    original: Callable,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an error that ends the program, without our lines, as `original` shows it."""
    if not config.shows_full_tracebacks():
        hide_our_lines(error)
        trace = error.__traceback__
    original(kind, error, trace)


def _patch_ipython() -> None:
    shell = sys.modules[IPYTHON].InteractiveShell
    session.patches.wrap(shell, "showtraceback", _show_error_of_cell)


def _show_error_of_cell(
    original: Callable,
    shell: Any,
    exc_tuple: tuple | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Show the error of a notebook's cell without our lines, as IPython shows it."""
    error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
    if error is not None and not config.shows_full_tracebacks():
        hide_our_lines(error)
        exc_tuple = (type(error), error, error.__traceback__)
    original(shell, exc_tuple, *args, **kwargs)


def _announcement(wanted: config.Config, card: Card) -> str:
    number = wanted.gpus
    gpus = f"{number} simulated {wanted.type.word(number)} ({card.name})"
    if wanted.clock:
        gpus += ", times modelled"
    if len(session.gpus) != number:
        visible = os.environ[config.VISIBLE]
        shown = len(session.gpus) or "none"
        gpus += f", of which {config.VISIBLE}={visible!r} shows {shown}"
    return f"cudasim: {gpus}; real values, computed on the CPU"


@cache  # once in a process
def _warn_if_untested() -> None:
    first, last = TESTED
    version = torch.__version__
    installed = minor_version(version)
    if not minor_version(first) <= installed <= minor_version(last):
        message = WORDS["simulation"]["untested"].format(first, last, version)
        warnings.warn(message, SimulationWarning, stacklevel=4)


def disable() -> None:
    """End the simulation, if one is running.

    Torch is then as it was, and simulated tensors are unusable. Raises RuntimeError in
    another thread than the one that called `enable`, and within a dispatch mode entered
    since: both would leave torch patched.
    """
    if not is_enabled():
        return
    if threading.get_ident() != session.home_thread:
        advice = "call cudasim.disable() in the thread that called cudasim.enable()"
        raise RuntimeError(advice)
    if innermost_mode() is not session.mode:
        advice = "leave the dispatch modes entered since cudasim.enable() first"
        raise RuntimeError(advice)
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
