"""`torch.accelerator`, answered by the simulated GPUs. Its modules are Python over functions of
`torch._C`; those are replaced, so what programs call, and its errors, are torch's own."""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudasim.backends import memory
from cudasim.backends.streams import Stream, place_of, set_stream, wait_until
from cudasim.dispatch import traces
from cudasim.dispatch.waiting import CAPTURING, complain
from cudasim.patching import Patches
from cudasim.session import session


def exchange_device(index: int) -> int:
    if index < 0:
        return -1
    before = session.current().index
    session.set_current(index)
    return before


def wait(index: int | None = None) -> None:
    gpu = session.gpu(index)
    if session.sync_debug & CAPTURING:
        complain()
    traces.fire("DeviceSynchronization")
    if session.races is not None:
        for line in [line for line in session.races.known if line[0] == gpu.index]:
            session.races.wait(line)
    ends = [end for (index, _), end in session.asleep.items() if index == gpu.index]
    clock = session.clock
    wait_until(max(ends, default=0) if clock is None else clock.cards[gpu.index].end)


def is_capturing() -> bool:
    return place_of() in session.capturing


def dtypes() -> set[torch.dtype]:
    kinds = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    missing = ("torch.q", "torch.bits", *session.type.missing)
    return {kind for kind in kinds if not str(kind).startswith(missing)}


def nothing(*args: Any) -> None:
    """In the place of what has nothing to do on a simulated GPU."""


def refuse(words: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Say why something is not to be had; `partial(refuse, words)` stands in its place."""
    raise NotImplementedError(words)


# What stands for the functions of torch._C, by what follows `_accelerator_` in their names.
BINDINGS: dict[str, Callable] = {
    "getAccelerator": lambda check=None: torch.device(session.type.name),
    "hooks_device_count": session.count,
    "hooks_get_current_device": lambda: session.current().index,
    "getDeviceIndex": lambda: session.current().index,
    "hooks_set_current_device": session.set_current,
    **dict.fromkeys(
        ("hooks_exchange_device", "exchangeDevice", "setDeviceIndex"), exchange_device
    ),
    **dict.fromkeys(
        ("hooks_maybe_exchange_device", "maybeExchangeDevice"), exchange_device
    ),
    "synchronizeDevice": wait,
    "getDefaultGenerator": lambda index: (
        session.gpu(index).generator
    ),  # since torch 2.14
    "getDeviceCapability": lambda index: {"supported_dtypes": dtypes()},
    "getStream": lambda index: Stream(
        stream_id=session.current_stream(session.gpu(index).index), device_index=index
    ),
    "setStream": lambda stream: set_stream(stream.stream_id, stream.device_index),
    "isAllocatorInitialized": lambda: True,
    "emptyCache": memory.empty_cache,
    "emptyHostCache": nothing,
    "getDeviceStats": lambda index: memory.stats(memory.of(index)),
    "resetPeakStats": lambda index: memory.of(index).reset_peaks(),
    "resetAccumulatedStats": lambda index: memory.of(index).reset_totals(),
    "getMemoryInfo": memory.free_and_total,
    "setAllocatorSettings": session.change_settings,
    "getAllocatorSettings": lambda: session.settings.text,
}


def patch_accelerator(patches: Patches) -> None:
    for name, function in BINDINGS.items():
        patches.replace(torch._C, f"_accelerator_{name}", function)
    patches.replace(torch._C, "_get_accelerator", BINDINGS["getAccelerator"])
    patches.forget(torch.accelerator)
    torch.get_device_module.cache_clear()
    patches.finally_do(torch.get_device_module.cache_clear)
