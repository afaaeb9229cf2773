"""Functions that make process groups, and those that ask about them: gloo stands for NCCL."""

import atexit
from collections.abc import Callable
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
LAST_PAUSE = 0.1  # seconds


class ProcessGroupNCCL:
    """What programs ask of the class that there is not: its options, which gloo has no use for."""

    class Options:
        """Those of a group, as `pg_options=`."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            """As PyTorch's begin."""
            self.is_high_priority_stream, self.config = is_high_priority_stream, SimpleNamespace()


def has_nccl(backend: Any) -> bool:
    """True for `nccl`, `cuda:nccl`, `cpu:gloo,cuda:nccl`: one gloo serves CPU and GPUs."""
    return "nccl" in [pair.split(":")[-1] for pair in str(backend).lower().split(",")]


def requested_backend(group: Any = None) -> str | None:
    """The backend requested for a group (None: the default one) that has NCCL, else None."""
    group = group or dist.group.WORLD
    roll = session.rolls.get(group.group_name) if isinstance(group, dist.ProcessGroup) else None
    return roll and roll.requested


def only_nccl(group: Any = None) -> bool:
    """True for a group (None: the default one) that would have no backend for the CPU."""
    requested = requested_backend(group)
    return requested is not None and "cpu" not in requested


def bound_device(device: Any) -> GPU | None:
    """The GPU that `device_id=` names. Raises ValueError, in torch's words, if it cannot be."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None or device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= torch.cuda.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than "
            f"the number of accelerators available: {torch.cuda.device_count()}."
        )
    return resolve(device)


def init_process_group(original: Callable, backend: Any = None, *args: Any, **kwargs: Any) -> None:
    """Gloo where NCCL is requested, by name, by a device, or by default."""
    gpu = bound_device(kwargs.pop("device_id", None))
    if backend is None:  # torch takes that of the accelerator
        requested = "undefined" if gpu is None else "nccl"
    else:
        requested = str(backend).lower() if has_nccl(backend) else None
    if requested:
        backend = "gloo"
        kwargs.setdefault("timeout", NCCL_TIMEOUT)
        kwargs.pop("pg_options", None)  # NCCL's own
    session.rolls.clear()
    session.lives += 1
    original(backend, *args, **kwargs)
    if requested:
        atexit.unregister(wait_for_gloo)  # once, however many groups there were
        atexit.register(wait_for_gloo)
        world = dist.group.WORLD
        roll = session.rolls[world.group_name] = Roll(world, requested, gpu)
        if gpu is not None:  # the communicator is made at once
            roll.meet(Request("INIT", [], []), gpu)


def new_group(
    original: Callable,
    ranks: Any = None,
    timeout: Any = None,
    backend: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Gloo where NCCL is requested, or was for the default group."""
    world = session.rolls.get(dist.group.WORLD.group_name) if dist.is_initialized() else None
    bound = bound_device(kwargs.pop("device_id", None)) or (world and world.bound)
    requested = requested_backend() if backend is None else None
    if has_nccl(backend):
        requested = str(backend).lower()
    if requested:
        backend = "gloo"
        kwargs.pop("pg_options", None)
    group = original(ranks, timeout, backend, *args, **kwargs)
    if requested and isinstance(group, dist.ProcessGroup):
        session.rolls[group.group_name] = Roll(group, requested, bound)
    return group


def get_backend(original: Callable, group: Any = None) -> str:
    """What was requested."""
    found = original(group)
    requested = requested_backend(group)
    return dist.Backend(requested) if requested else found


def barrier(
    original: Callable,
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    **kwargs: Any,
) -> Any:
    """`device_ids` names GPUs, which gloo does not know."""
    roll = session.rolls.get((group or dist.group.WORLD).group_name)
    if roll is not None:
        roll.barrier_gpu = session.gpu(device_ids[0]) if device_ids else None
    return original(group, async_op, **kwargs)


def destroy_process_group(original: Callable, group: Any = None) -> None:
    """The roll of a group goes with it, and its connection."""
    if group is None or group is dist.group.WORLD:
        session.rolls.clear()
    else:
        session.rolls.pop(group.group_name, None)
    original(group)


def object_device(original: Callable, group: Any = None) -> str:
    """Where a group's collectives of objects send them: with NCCL, through a GPU."""
    return "cuda" if only_nccl(group) else original(group)


def wait_for_gloo() -> None:
    """Let gloo's threads finish before Python ends.

    They outlive a group that a variable still holds. One that lets go of a tensor while Python
    ends aborts the process (https://github.com/pytorch/pytorch/issues/190489); NCCL, which gloo
    stands for, has none that would.
    """
    sleep(LAST_PAUSE)
