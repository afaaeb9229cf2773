"""`torch.accelerator`, answered by the simulated GPUs.

Its modules are Python over functions of `torch._C`. Those are replaced, so what programs
call, and its errors, are torch's own.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudasim.backends import memory
from cudasim.backends.streams import Stream, key_of, set_stream, wait_until
from cudasim.dispatch import traces
from cudasim.dispatch.capture import refuse_gpu_wait
from cudasim.dispatch.host_memory import host_memory
from cudasim.dispatch.waiting import complain
from cudasim.patching import Patches
from cudasim.session import session
from cudasim.torch_private import devices as private


def do_nothing(*args: Any) -> None:
    """Stand for what has nothing to do on a simulated GPU."""


def refuse(message: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError; `partial(refuse, message)` stands for what is missing."""
    raise NotImplementedError(message)


def current_device() -> torch.device:
    return torch.device(session.type.name)


def current_index() -> int:
    return session.current().index


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one, and return which was; -1 changes nothing."""
    if index < 0:
        return -1
    before = current_index()
    session.set_current(index)
    return before


def wait(index: int | None = None) -> None:
    """Wait until GPU `index`, or the current one, has done all that it was given."""
    gpu = session.gpu(index)
    if session.capturing:
        complain()
        refuse_gpu_wait(gpu.index)
    traces.fire("DeviceSynchronization")
    if session.races is not None:
        session.races.wait_for_gpu(gpu.index)

    if session.clock is not None:
        wait_until(session.clock.cards[gpu.index].end)
    else:
        ends = [end for key, end in session.asleep.items() if key[0] == gpu.index]
        wait_until(max(ends, default=0))


def is_capturing() -> bool:
    """Tell whether the current stream is captured; the question uses no GPU."""
    return bool(session.capturing) and key_of() in session.capturing


def supported_dtypes() -> set[torch.dtype]:
    missing = ("torch.q", "torch.bits", *session.type.missing)
    return {
        value
        for value in vars(torch).values()
        if isinstance(value, torch.dtype) and not str(value).startswith(missing)
    }


def current_stream(index: int) -> Stream:
    stream_id = session.current_stream(session.gpu(index).index)
    return Stream(stream_id=stream_id, device_index=index)


def settings_text() -> str:
    session.read_settings()
    return session.settings.text


FUNCTIONS: dict[str, Callable] = {
    "getAccelerator": lambda check=None: current_device(),
    "getDeviceIndex": current_index,
    "setDeviceIndex": exchange_device,
    "exchangeDevice": exchange_device,
    "maybeExchangeDevice": exchange_device,
    "hooks_device_count": session.count,
    "hooks_get_current_device": current_index,
    "hooks_set_current_device": session.set_current,
    "hooks_exchange_device": exchange_device,
    "hooks_maybe_exchange_device": exchange_device,
    "getDeviceCapability": lambda index: {"supported_dtypes": supported_dtypes()},
    "synchronizeDevice": wait,
    "getStream": current_stream,
    "setStream": lambda stream: set_stream(stream.stream_id, stream.device_index),
    "getDefaultGenerator": lambda index: session.gpu(index).generator,
    "isAllocatorInitialized": lambda: True,
    "emptyCache": memory.empty_cache,
    "emptyHostCache": lambda: host_memory().empty_cache(),
    "getDeviceStats": lambda index: memory.stats(memory.of(index)),
    "resetPeakStats": lambda index: memory.of(index).reset_peaks(),
    "resetAccumulatedStats": lambda index: memory.of(index).reset_totals(),
    "getMemoryInfo": memory.free_and_total,
    "setAllocatorSettings": session.change_settings,
    "getAllocatorSettings": settings_text,
}


def patch_accelerator(patches: Patches) -> None:
    patches.bind(private.ACCELERATOR, FUNCTIONS)
    patches.replace(*private.GET_ACCELERATOR, FUNCTIONS["getAccelerator"])
    patches.forget(torch.accelerator)
    torch.get_device_module.cache_clear()
    patches.finally_do(torch.get_device_module.cache_clear)
