"""Functions that make process groups, and those that ask about them: gloo stands for NCCL."""

import atexit
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import sleep  # the machine's, whatever clock runs
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from cudasim.backends.cuda.distributed.rollcall import Request, Roll
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.session import session

NCCL_TIMEOUT = timedelta(minutes=10)  # torch's default_pg_nccl_timeout; gloo's is 30
signature_of = functools.cache(inspect.signature)
# Lets gloo's threads finish before Python ends: they outlive a group that a variable holds. One
# that lets go of a tensor then aborts (https://github.com/pytorch/pytorch/issues/190489).
wait_for_gloo = functools.partial(sleep, 0.1)


class ProcessGroupNCCL:
    """What programs ask of the class that there is not: its options, which gloo has no use for."""

    @dataclass
    class Options:
        is_high_priority_stream: bool = False
        config: SimpleNamespace = field(default_factory=SimpleNamespace, init=False)


def nccl_in(backend: Any) -> str | None:
    """`nccl`, `cuda:nccl`, `cpu:gloo,cuda:nccl`: one gloo serves CPU and GPUs; else None."""
    asked = str(backend).lower()
    return (
        asked if "nccl" in [pair.split(":")[-1] for pair in asked.split(",")] else None
    )


def roll_of(group: Any = None) -> Roll | None:
    """The roll of a group (None: the default one) if it stands for one of NCCL's, else None."""
    group = group or dist.group.WORLD
    return (
        session.rolls.get(group.group_name)
        if isinstance(group, dist.ProcessGroup)
        else None
    )


def bound_device(device: Any) -> GPU | None:
    """The GPU that `device_id=` names. Raises ValueError, in torch's words, if it cannot be."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None or device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= (count := torch.cuda.device_count()):
        words = (
            f"device_id {device} is out of range. Please use a device index less than"
        )
        raise ValueError(f"{words} the number of accelerators available: {count}.")
    return resolve(device)


def named(original: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    return signature_of(original).bind(*args, **kwargs).arguments


def init_process_group(original: Callable, *args: Any, **kwargs: Any) -> None:
    """Gloo where NCCL is requested, by name, by a device, or by default."""
    given = named(original, args, kwargs)
    gpu = bound_device(given.pop("device_id", None))
    requested = nccl_in(given.get("backend"))
    if given.get("backend") is None:  # torch takes that of the accelerator
        requested = "undefined" if gpu is None else "nccl"
    session.rolls.clear()
    session.lives += 1
    if not requested:
        return original(**given)
    given.pop("pg_options", None)  # NCCL's own
    original(**{"timeout": NCCL_TIMEOUT} | given | {"backend": "gloo"})
    atexit.unregister(wait_for_gloo)  # once, however many groups there were
    atexit.register(wait_for_gloo)
    world = dist.group.WORLD
    roll = session.rolls[world.group_name] = Roll(world, requested, gpu)
    if gpu is not None:  # the communicator is made at once
        roll.meet(Request("INIT", [], []), gpu)


def new_group(original: Callable, *args: Any, **kwargs: Any) -> Any:
    given = named(original, args, kwargs)
    world = roll_of() if dist.is_initialized() else None
    bound = bound_device(given.pop("device_id", None)) or (world and world.bound)
    backend = given.get("backend")
    requested = nccl_in(backend) if backend is not None else world and world.requested
    if requested:
        given["backend"] = "gloo"
        given.pop("pg_options", None)
    group = original(**given)
    if requested and isinstance(group, dist.ProcessGroup):
        session.rolls[group.group_name] = Roll(group, requested, bound)
    return group


def get_backend(original: Callable, group: Any = None) -> str:
    found, roll = original(group), roll_of(group)
    return dist.Backend(roll.requested) if roll else found


def barrier(original: Callable, *args: Any, **kwargs: Any) -> Any:
    given = named(original, args, kwargs)
    gpus, roll = given.pop("device_ids", None), roll_of(given.get("group"))
    if roll is not None:
        roll.barrier_gpu = session.gpu(gpus[0]) if gpus else None
    return original(**given)


def destroy_process_group(original: Callable, group: Any = None) -> None:
    if group in (None, dist.group.WORLD):
        session.rolls.clear()
    else:
        session.rolls.pop(group.group_name, None)
    original(group)


def object_device(original: Callable, group: Any = None) -> str:
    roll = roll_of(group)
    return "cuda" if roll and roll.only_nccl else original(group)
