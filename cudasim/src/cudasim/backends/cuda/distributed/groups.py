"""Functions that make process groups, and those that ask about them."""

import atexit
import functools
from collections.abc import Callable
from datetime import timedelta
from time import sleep  # the machine's, whatever clock runs
from typing import Any

import torch.distributed as dist

from cudasim.backends.cuda.distributed.backends import (
    bound_device,
    has_nccl,
    only_nccl,
    requested_backend,
)
from cudasim.backends.cuda.distributed.operators import compare_cards, compare_requests
from cudasim.backends.cuda.distributed.rollcall import Roll, wanted
from cudasim.device.gpu import GPU
from cudasim.session import session

NCCL_TIMEOUT = timedelta(minutes=10)  # torch's default_pg_nccl_timeout; gloo's is 30
LAST_PAUSE = 0.1  # seconds


def make_init(original: Callable) -> Callable:
    """`init_process_group`: gloo where NCCL is requested, by name, by a device, or by default."""

    @functools.wraps(original)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        gpu = bound_device(kwargs.pop("device_id", None))
        if backend is None:  # torch takes that of the accelerator
            requested = "undefined" if gpu is None else "nccl"
        else:
            requested = str(backend).lower() if has_nccl(backend) else None
        if requested:
            backend = "gloo"
            kwargs.setdefault("timeout", NCCL_TIMEOUT)
            kwargs.pop("pg_options", None)  # NCCL's own
        forget_groups()
        session.lives += 1
        original(backend, *args, **kwargs)
        if requested:
            atexit.unregister(wait_for_gloo)  # once, however many groups there were
            atexit.register(wait_for_gloo)
            begin(dist.group.WORLD, requested, gpu)
            if gpu is not None:  # the communicator is made at once
                connect(session.rolls[dist.group.WORLD.group_name], gpu)

    return init_process_group


def make_new_group(original: Callable) -> Callable:
    """`new_group`: gloo where NCCL is requested, or was for the default group."""

    @functools.wraps(original)
    def new_group(
        ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        bound = bound_device(kwargs.pop("device_id", None)) or bound_of_world()
        requested = requested_backend() if backend is None else None
        if has_nccl(backend):
            requested = str(backend).lower()
        if requested:
            backend = "gloo"
            kwargs.pop("pg_options", None)
        group = original(ranks, timeout, backend, *args, **kwargs)
        if requested and isinstance(group, dist.ProcessGroup):
            begin(group, requested, bound)
        return group

    return new_group


def make_get_backend(original: Callable) -> Callable:
    """`get_backend`: what was requested."""

    @functools.wraps(original)
    def get_backend(group: Any = None) -> str:
        found = original(group)
        requested = requested_backend(group)
        return dist.Backend(requested) if requested else found

    return get_backend


def make_barrier(original: Callable) -> Callable:
    """`barrier`: `device_ids` names GPUs, which gloo does not know."""

    @functools.wraps(original)
    def barrier(
        group: Any = None, async_op: bool = False, device_ids: Any = None, **kwargs: Any
    ) -> Any:
        roll = session.rolls.get((group or dist.group.WORLD).group_name)
        if roll is not None:
            roll.barrier_gpu = session.gpu(device_ids[0]) if device_ids else None
        return original(group, async_op, **kwargs)

    return barrier


def make_destroy(original: Callable) -> Callable:
    """`destroy_process_group`: the roll of a group goes with it, and its connection."""

    @functools.wraps(original)
    def destroy_process_group(group: Any = None) -> None:
        if group is None or group is dist.group.WORLD:
            forget_groups()
        else:
            session.groups.pop(group.group_name, None)
            session.rolls.pop(group.group_name, None)
        original(group)

    return destroy_process_group


def begin(group: dist.ProcessGroup, requested: str, bound: GPU | None) -> None:
    """Note that `group` stands for one of the backend `requested`, bound to a GPU or not."""
    session.groups[group.group_name] = requested
    session.rolls[group.group_name] = Roll(group, bound)


def wait_for_gloo() -> None:
    """Let gloo's threads finish before Python ends.

    They outlive a group that a variable still holds. One that lets go of a tensor while Python
    ends aborts the process (https://github.com/pytorch/pytorch/issues/190489); NCCL, which gloo
    stands for, has none that would.
    """
    sleep(LAST_PAUSE)


def forget_groups() -> None:
    """Forget all groups."""
    session.groups.clear()
    session.rolls.clear()


def bound_of_world() -> GPU | None:
    """The GPU to which the default group is bound."""
    roll = session.rolls.get(dist.group.WORLD.group_name) if dist.is_initialized() else None
    return roll and roll.bound


def connect(roll: Roll, gpu: GPU) -> None:
    """What NCCL checks when a communicator is made: no two ranks on one GPU."""
    if roll.size == 1 or not wanted():
        return
    arrival = roll.arrival(gpu.number, ["INIT"], "init_process_group(device_id=)")
    arrivals = roll.call(arrival, "WorkNCCL(SeqNum=0, OpType=INIT)")
    compare_cards(roll, dict(enumerate(arrivals)))
    compare_requests(roll, arrivals)


def make_object_device(c10d: Any) -> Callable:
    """Where a group's collectives of objects send them: with NCCL, through a GPU."""
    original = c10d._get_object_coll_device

    def object_device(group: Any = None) -> str:
        return "cuda" if only_nccl(group) else original(group)

    return object_device
