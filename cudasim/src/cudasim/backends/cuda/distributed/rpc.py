"""`torch.distributed.rpc` between processes with simulated GPUs: tensors of the CPU alone.

TensorPipe would take tensors of simulated GPUs for the CPU's, and drop their tags. As on a
card without `device_maps`, they are refused where they are sent
(`TensorPipeAgent::getDevicesForRemote` in torch/csrc/distributed/rpc/tensorpipe_agent.cpp).
With a map, `init_rpc` is refused: there would be no streams for C++'s agent.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from cudasim.dispatch.tags import gpu_of
from cudasim.patching import Patches
from cudasim.torch_private import rpc as private
from cudasim.torch_private.operators import tree_leaves
from cudasim.words import WORDS

MESSAGES = WORDS["RPC"]
Map = dict[torch.device, torch.device]  # from the sender's to the receiver's


def patch_rpc(patches: Patches) -> None:
    for send in private.REQUESTS:
        patches.wrap(*send, request)
    patches.wrap(*private.SERIALIZE_RESPONSE, response)
    patches.wrap(*private.CHECK_MAPS, check_maps)


def request(original: Callable, to: Any, *args: Any, **kwargs: Any) -> Any:
    """Send a request to a worker, or to the one of that name."""
    device = device_in(tree_leaves((args, kwargs)))
    if device is not None:
        name = to if isinstance(to, str) else to.name
        raise RuntimeError(MESSAGES["no map"].format("Request", name, device))
    return original(to, *args, **kwargs)


def response(original: Callable, value: Any) -> tuple[bytes, list[Tensor]]:
    """Return the response with a `value`, or the one that refuses it."""
    data, tensors = original(value)
    device = device_in(tensors)
    return (data, tensors) if device is None else original(Refusal(device))


class Refusal:
    """The response in the place of one with a tensor on a `device`.

    The worker that receives it knows its own name, and raises the error.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __reduce__(self) -> tuple[Callable, tuple[str]]:
        return refused_response, (str(self.device),)


def refused_response(device: str) -> tuple:
    """Return what PyTorch raises where it receives it."""
    name = private.current_agent().get_worker_info().name
    text = MESSAGES["no map"].format("Response", name, device)
    return private.RemoteException(text, RuntimeError)


def device_in(values: Iterable[Any]) -> torch.device | None:
    """Return the device of the first tensor on a GPU, if any."""
    for value in values:
        gpu = gpu_of(value) if isinstance(value, Tensor) else None
        if gpu is not None:
            return gpu.device
    return None


def check_maps(
    original: Callable,
    names: list[str],
    counts: dict[str, int],
    maps: dict[str, dict[str, Map]],
    devices: dict[str, list[torch.device]],
    **kwargs: Any,
) -> None:
    """Check the devices of all workers as PyTorch does, and refuse GPUs.

    Every worker does that, so none of them waits for another.
    """
    original(names, counts, maps, devices, **kwargs)
    used = [device for listed in devices.values() for device in listed]
    for maps_of_worker in maps.values():
        for map_ in maps_of_worker.values():
            used += [*map_.keys(), *map_.values()]
    if any(device.type != "cpu" for device in used):
        raise NotImplementedError(MESSAGES["not simulated"])
