"""`torch.accelerator`, answered by the simulated GPUs, and what all types of GPU have in common.

`torch.accelerator`, `torch.cuda`, `torch.mps` and `torch.xpu` are Python over functions of
`torch._C`. Those are replaced, or added on a build of PyTorch that lacks them, so that what
programs call is torch's own code. Where C++ would raise, its own errors are raised.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cudasim.backends.snapshots import snapshot
from cudasim.backends.streams import address, current_id, select, stream_data
from cudasim.device import gpus, metal
from cudasim.device.gpus import GPU
from cudasim.patching import Patches


def memory(index: int) -> Any:
    """The memory of GPU `index`. Raises RuntimeError, with CUDA's text, if there is none."""
    if not 0 <= index < len(gpus.gpus):
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return gpus.gpus[index].memory


def set_device(index: int) -> None:
    """Make GPU `index` the current one."""
    gpus.set_current(index)


def exchange_device(index: int) -> int:
    """Make GPU `index` the current one; returns that which was. A negative index does nothing."""
    if index < 0:
        return -1
    before = gpus.current().index
    gpus.set_current(index)
    return before


def empty_cache() -> None:
    """Give the driver back what is reserved and holds no tensor, on every GPU."""
    for gpu in gpus.gpus:
        gpu.memory.empty_cache()


def free_and_total(index: int) -> tuple[int, int]:
    """Bytes of GPU `index` that are free, and that there are, as the driver counts them."""
    memory = gpus.get(index).memory
    return memory.size - memory.counts.reserved, memory.size


def wait(index: int | None = None) -> None:
    """Wait for a GPU, which is never busy."""
    gpus.get(index)


def can_access_peer(index: int, peer: int) -> bool:
    """True between two GPUs: one reads the other's memory; a GPU is no peer of itself."""
    return gpus.get(index) is not gpus.get(peer)


def dtypes() -> set[torch.dtype]:
    """The types of numbers that tensors on a GPU can have."""
    kinds = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    kinds = {kind for kind in kinds if not str(kind).startswith(("torch.q", "torch.bits"))}
    return kinds - set(metal.MISSING) if gpus.kind.type == "mps" else kinds


BINDINGS = {
    "_accelerator_getAccelerator": lambda: torch.device(gpus.kind.type),
    "_get_accelerator": lambda check=None: torch.device(gpus.kind.type),
    "_accelerator_hooks_device_count": lambda: len(gpus.gpus),
    "_accelerator_hooks_get_current_device": lambda: gpus.current().index,
    "_accelerator_hooks_set_current_device": set_device,
    "_accelerator_hooks_exchange_device": exchange_device,
    "_accelerator_hooks_maybe_exchange_device": exchange_device,
    "_accelerator_getDeviceIndex": lambda: gpus.current().index,
    "_accelerator_setDeviceIndex": lambda index: None if index < 0 else set_device(index),
    "_accelerator_exchangeDevice": exchange_device,
    "_accelerator_maybeExchangeDevice": exchange_device,
    "_accelerator_synchronizeDevice": wait,
    "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": dtypes()},
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": empty_cache,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": lambda index: memory(index).stats(),
    "_accelerator_resetPeakStats": lambda index: memory(index).reset_peaks(),
    "_accelerator_resetAccumulatedStats": lambda index: memory(index).reset_totals(),
    "_accelerator_getMemoryInfo": free_and_total,
}


def patch_accelerator(patches: Patches) -> None:
    """Let `torch.accelerator` speak of the simulated GPUs."""
    for name, function in BINDINGS.items():
        patches.replace(torch._C, name, function)
    patches.forget(torch.accelerator)
    torch.get_device_module.cache_clear()
    patches.finally_do(torch.get_device_module.cache_clear)


def module_bindings() -> dict[str, Callable]:
    """What stands for the functions of `torch._C` that `torch.cuda` and `torch.xpu` call alike."""
    functions = {
        "init": lambda: None,
        "getDeviceCount": lambda: len(gpus.gpus),
        "getDevice": lambda: gpus.current().index,
        "setDevice": set_device,
        "exchangeDevice": exchange_device,
        "maybeExchangeDevice": exchange_device,
        "synchronize": wait,
        "canDeviceAccessPeer": can_access_peer,
        "isCurrentStreamCapturing": lambda: False,
        "getCurrentStream": lambda index: stream_data(index, current_id(index)),
        "getCurrentRawStream": lambda index: address(current_id(index), index),
        "getStreamFromExternal": lambda pointer, index: stream_data(index, pointer),
        "setStream": select,
        "emptyCache": empty_cache,
        "memoryStats": lambda index: memory(index).stats(),
        "resetPeakMemoryStats": lambda index: memory(index).reset_peaks(),
        "resetAccumulatedMemoryStats": lambda index: memory(index).reset_totals(),
        "setMemoryFraction": lambda part, index: memory(index).set_fraction(part),
        "getMemoryFraction": lambda index: memory(index).fraction,
        "memorySnapshot": snapshot,
    }
    return {f"_{gpus.kind.type}_{name}": function for name, function in functions.items()}


def patch_module(patches: Patches, properties: Callable[[GPU], Any]) -> None:
    """Let `torch.cuda`, or `torch.xpu`, speak of the simulated GPUs, which have `properties`."""
    for name, function in module_bindings().items():
        patches.replace(torch._C, name, function)
    module = getattr(torch, gpus.kind.type)
    patches.replace(torch._C, f"_has_{gpus.kind.type}", True)
    patches.replace(module, "_initialized", True)
    patches.replace(module, "_cached_device_count", len(gpus.gpus))
    patches.replace(module, "_exchange_device", exchange_device)
    patches.replace(module, "_maybe_exchange_device", exchange_device)
    patches.replace(module, "_get_device_properties", lambda index: properties(gpus.get(index)))
    for owner in (module, module.memory, module.random):
        patches.replace(owner, "_lazy_init", lambda: None)
    patches.forget(module)


def refuse(words: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedError, saying why."""

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(words)

    return refused


def refuse_graphs(patches: Patches, graph: str) -> None:
    """Let the class `graph` of `torch.cuda` or `torch.xpu`, and what uses it, be refused."""
    module = getattr(torch, gpus.kind.type)
    words = f"cudasim: {gpus.kind.key} graphs record kernels, and a simulated GPU has none"
    refused = refuse(f"{words}; run without them")
    patches.replace(module.graphs, f"_{gpus.kind.type}_isCurrentStreamCapturing", lambda: False)
    graphs = [getattr(module.graphs, graph), getattr(torch.accelerator, "Graph", None)]  # from 2.12
    for owner in filter(None, graphs):
        patches.replace(owner, "__new__", staticmethod(refused))
    patches.replace(module.graphs.graph, "__init__", refused)
    for name in ("graph_pool_handle", "make_graphed_callables"):
        patches.replace(module.graphs, name, refused)
        patches.replace(module, name, refused)
    pools = refuse("cudasim: a simulated GPU has one pool of memory and no others")
    pool = type("MemPool", (), {"__new__": staticmethod(pools)})
    for owner in (module, module.memory):
        patches.replace(owner, "MemPool", pool)
