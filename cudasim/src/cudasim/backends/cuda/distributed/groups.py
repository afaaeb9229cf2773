"""Functions that make process groups, and those that ask about them."""

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from cudasim.backends.cuda.distributed.backends import (
    bound_device,
    has_nccl,
    only_nccl,
    requested_backend,
)
from cudasim.session import session

NCCL_TIMEOUT = timedelta(minutes=10)  # torch's default_pg_nccl_timeout; gloo's is 30


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
        session.groups.clear()
        original(backend, *args, **kwargs)
        if requested:
            session.groups[dist.group.WORLD.group_name] = requested

    return init_process_group


def make_new_group(original: Callable) -> Callable:
    """`new_group`: gloo where NCCL is requested, or was for the default group."""

    @functools.wraps(original)
    def new_group(
        ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        bound_device(kwargs.pop("device_id", None))
        requested = requested_backend() if backend is None else None
        if has_nccl(backend):
            requested = str(backend).lower()
        if requested:
            backend = "gloo"
            kwargs.pop("pg_options", None)
        group = original(ranks, timeout, backend, *args, **kwargs)
        if requested and isinstance(group, dist.ProcessGroup):
            session.groups[group.group_name] = requested
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
        return original(group, async_op, **kwargs)

    return barrier


def make_object_device(c10d: Any) -> Callable:
    """Where a group's collectives of objects send them: with NCCL, through a GPU."""
    original = c10d._get_object_coll_device

    def object_device(group: Any = None) -> str:
        return "cuda" if only_nccl(group) else original(group)

    return object_device
