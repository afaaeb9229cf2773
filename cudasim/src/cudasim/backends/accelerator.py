"""`torch.accelerator`, answered by the simulated GPUs, and what all types of GPU have in common.

`torch.accelerator`, `torch.cuda` and `torch.mps` are Python over functions of
`torch._C`. Those are replaced, or added on a build of PyTorch that lacks them, so that what
programs call is torch's own code. Where C++ would raise, its own errors are raised.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudasim.backends.memory import empty_cache, free_and_total, memory, stats
from cudasim.dispatch import traces
from cudasim.dispatch.waiting import CAPTURING, complain, sleep_until
from cudasim.patching import Patches
from cudasim.session import session


def set_device(index: int) -> None:
    """Make GPU `index` the current one."""
    session.set_current(index)


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one; returns that which was. A negative index does nothing."""
    if index < 0:
        return -1
    before = session.current().index
    session.set_current(index)
    return before


def wait(index: int | None = None) -> None:
    """Wait for all streams of a GPU."""
    gpu = session.gpu(index)
    if session.sync_debug & CAPTURING:
        complain()
    traces.fire(traces.DEVICE_SYNCHRONIZATION)
    if session.races is not None:
        session.races.wait_for_all(gpu.index)
    ends = [end for (index, _), end in session.asleep.items() if index == gpu.index]
    sleep_until(max(ends, default=0))
    if session.clock is not None:
        session.clock.wait_until(session.clock.cards[gpu.index].end, "synchronize")


def is_capturing() -> bool:
    """True while the work of the current stream is captured by a graph."""
    index = session.current().index
    return (index, session.current_stream(index)) in session.capturing


def can_access_peer(index: int, peer: int) -> bool:
    """True between two GPUs: one reads the other's memory; a GPU is no peer of itself."""
    return session.gpu(index) is not session.gpu(peer)


def dtypes() -> set[torch.dtype]:
    """The types of numbers that tensors on a GPU can have."""
    kinds = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    kinds = {kind for kind in kinds if not str(kind).startswith(("torch.q", "torch.bits"))}
    return {kind for kind in kinds if str(kind) not in session.type.missing}


BINDINGS = {
    "_accelerator_getAccelerator": lambda: torch.device(session.type.name),
    "_get_accelerator": lambda check=None: torch.device(session.type.name),
    "_accelerator_hooks_device_count": session.count,
    "_accelerator_hooks_get_current_device": lambda: session.current().index,
    "_accelerator_hooks_set_current_device": set_device,
    "_accelerator_hooks_exchange_device": exchange_device,
    "_accelerator_hooks_maybe_exchange_device": exchange_device,
    "_accelerator_getDeviceIndex": lambda: session.current().index,
    "_accelerator_setDeviceIndex": lambda index: None if index < 0 else set_device(index),
    "_accelerator_exchangeDevice": exchange_device,
    "_accelerator_maybeExchangeDevice": exchange_device,
    "_accelerator_synchronizeDevice": wait,
    "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": dtypes()},
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": empty_cache,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": lambda index: stats(memory(index)),
    "_accelerator_resetPeakStats": lambda index: memory(index).reset_peaks(),
    "_accelerator_resetAccumulatedStats": lambda index: memory(index).reset_totals(),
    "_accelerator_getMemoryInfo": free_and_total,
    "_accelerator_setAllocatorSettings": session.change_settings,
    "_accelerator_getAllocatorSettings": lambda: session.settings.text,
}


def patch_accelerator(patches: Patches) -> None:
    """Make `torch.accelerator` report the simulated GPUs."""
    for name, function in BINDINGS.items():
        patches.replace(torch._C, name, function)
    patches.forget(torch.accelerator)
    torch.get_device_module.cache_clear()
    patches.finally_do(torch.get_device_module.cache_clear)


def refuse(words: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError, saying why."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(words)

    return refused
