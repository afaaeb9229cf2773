"""Functions that make process groups, or report of them: gloo stands for NCCL."""

import atexit
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from time import sleep  # the machine's, whatever clock runs
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from cudasim.backends.cuda.distributed import logs, wrapper
from cudasim.backends.cuda.distributed.rollcall import INIT, Request, Roll
from cudasim.device.gpu import GPU
from cudasim.dispatch.devices import resolve
from cudasim.session import session
from cudasim.torch_private.distributed import DEVICE_TYPES, Backend, set_backend

# torch's default_pg_nccl_timeout; gloo's is 30 minutes.
NCCL_TIMEOUT = timedelta(minutes=10)
_device_types = DEVICE_TYPES.read()  # PyTorch's own
signature_of = functools.cache(inspect.signature)
# Lets gloo's threads finish before Python ends: they outlive a group that a variable holds.
# One that lets go of a tensor then aborts
# (https://github.com/pytorch/pytorch/issues/190489).
wait_for_gloo = functools.partial(sleep, 0.1)
# The name of the group that `split_group` makes now.
name_of_split: ContextVar[str | None] = ContextVar("name_of_split", default=None)


class ProcessGroupNCCL:
    """A stand-in for a class that is not there: its options, for which gloo has no use."""

    @dataclass
    class Options:
        is_high_priority_stream: bool = False
        config: SimpleNamespace = field(default_factory=SimpleNamespace, init=False)


def nccl_in(backend: Any) -> str | None:
    """Return `backend`, in lower case, if it names NCCL for a type of device; else None.

    That is `nccl`, `cuda:nccl` or `cpu:gloo,cuda:nccl`: one gloo serves CPU and GPUs.
    """
    name = str(backend).lower()
    libraries = [pair.split(":")[-1] for pair in name.split(",")]
    return name if "nccl" in libraries else None


def roll_of(group: Any = None) -> Roll | None:
    """Return the roll of a group that stands for one of NCCL's; None for any other.

    The group None is the default one.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup):
        return None
    return session.rolls.get(group)


def bound_device(device: Any) -> GPU | None:
    """Return the GPU that `device_id=` names.

    Raises ValueError, in torch's words, if it cannot be.
    """
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None or device.type != "cuda":
        return None
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    count = torch.cuda.device_count()
    if device.index >= count:
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than "
            f"the number of accelerators available: {count}."
        )
    return resolve(device)


def take_device(arguments: dict[str, Any]) -> GPU | None:
    """Take the GPU that `device_id=` names from the arguments, as gloo has no use for it.

    What is no GPU stays there: torch refuses it in its words.
    """
    gpu = bound_device(arguments.get("device_id"))
    if gpu is not None:
        del arguments["device_id"]
    return gpu


def bind_arguments(original: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Return the arguments of a call of `original`, by name."""
    return signature_of(original).bind(*args, **kwargs).arguments


def init_process_group(original: Callable, *args: Any, **kwargs: Any) -> None:
    """Use gloo where NCCL is requested: by name, by a device, or by default.

    A call that PyTorch refuses leaves the groups that there are as they were, as
    torch/distributed/distributed_c10d.py raises before it touches them.
    """
    if dist.is_initialized():
        original(*args, **kwargs)  # refuses it in torch's words
    arguments = bind_arguments(original, args, kwargs)
    gpu = take_device(arguments)
    if arguments.get("backend") is not None:
        requested = nccl_in(arguments["backend"])
    else:  # torch takes that of the accelerator
        requested = "undefined" if gpu is None else "nccl"
    session.group_starts += 1
    if requested is None:
        original(**arguments)
        return

    arguments.pop("pg_options", None)  # NCCL's own
    arguments.setdefault("timeout", NCCL_TIMEOUT)
    arguments["backend"] = "gloo"
    with _unwrapped():
        original(**arguments)
    for at_exit in (wait_for_gloo, warn_of_groups):
        atexit.unregister(at_exit)  # once, however many groups there were
        atexit.register(at_exit)

    world = dist.group.WORLD
    roll = Roll(world, requested, gpu)
    session.rolls[world] = roll
    set_backend(world, requested)
    if gpu is not None:  # the communicator is made at once
        world.bound_device_id = gpu.device
        roll.meet(Request(INIT, [], [], []), gpu)


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Keep PyTorch from wrapping gloo's groups: the roll call does the wrapper's work.

    DistributedDataParallel takes the backend of a group called gloo for gloo's own
    without a look, and crashes (`Logger::set_construction_data_and_log` in
    torch/csrc/distributed/c10d/logger.cpp).
    """
    level = dist.get_debug_level()
    if wrapper.is_wanted():
        dist.set_debug_level(dist.DebugLevel.INFO)
    try:
        yield
    finally:
        dist.set_debug_level(level)


def new_group(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Use gloo where NCCL is requested, or stands behind the default group."""
    arguments = bind_arguments(original, args, kwargs)
    world = roll_of() if dist.is_initialized() else None
    gpu = take_device(arguments)
    if gpu is None and world is not None:
        gpu = world.bound_gpu

    requested = None
    if arguments.get("backend") is not None:
        requested = nccl_in(arguments["backend"])
    elif world is not None:
        requested = world.requested
    if requested is None:
        return original(**arguments)

    arguments["backend"] = "gloo"
    arguments.pop("backend_options", None)  # NCCL's own
    if arguments.get("timeout") is None:
        arguments["timeout"] = NCCL_TIMEOUT
    with _unwrapped():
        group = original(**arguments)
    if isinstance(group, dist.ProcessGroup):  # else this process is not in it
        session.rolls[group] = Roll(group, requested, gpu)
        set_backend(group, requested)
        if gpu is not None:
            group.bound_device_id = gpu.device
    return group


def split_source(original: Callable, group: dist.ProcessGroup) -> Any:
    """Return the communicator to split for a new group; None where gloo stands for NCCL.

    A rank that is not in the new group takes part in the split (`perform_nocolor_split` in
    torch/distributed/distributed_c10d.py), which gloo cannot.
    """
    return original(group) if roll_of(group) is None else None


def split_group(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Make new groups where NCCL would split its communicator, which gloo cannot."""
    arguments = bind_arguments(original, args, kwargs)
    parent = roll_of(arguments.get("parent_pg"))
    split_ranks = arguments.get("split_ranks")
    if parent is None or parent.bound_gpu is None or not split_ranks:
        return original(**arguments)  # refuses it in torch's words

    parent.splits += 1
    for split in split_ranks:
        ranks = [parent.ranks[number] for number in sorted(split)]
        if parent.ranks[parent.rank] in ranks:
            with _named(f"{parent.name}:split:{parent.splits}:{ranks}"):
                return dist.new_group(
                    ranks,
                    timeout=arguments.get("timeout"),
                    use_local_synchronization=True,
                    group_desc=arguments.get("group_desc"),
                )
    return None


@contextmanager
def _named(text: str) -> Iterator[None]:
    """Name a new group by a hash of `text`."""
    name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    token = name_of_split.set(name)
    try:
        yield
    finally:
        name_of_split.reset(token)


def name_group(original: Callable, *args: Any, **kwargs: Any) -> str:
    """Return the name of a new group.

    PyTorch's own depends on how many groups a process is in. The ranks of a new group
    meet under its name here, and NCCL's split needs none: so a split has one of ours.
    """
    return name_of_split.get() or original(*args, **kwargs)


def barrier(original: Callable, *args: Any, **kwargs: Any) -> Any:
    arguments = bind_arguments(original, args, kwargs)
    indices = arguments.pop("device_ids", None)
    roll = roll_of(arguments.get("group"))
    if roll is not None:  # PyTorch passes over what is not a list
        is_list = isinstance(indices, list)
        roll.barrier_gpu = session.gpu(indices[0]) if is_list else None
    return original(**arguments)


def end_group(original: Callable, group: dist.ProcessGroup) -> None:
    """Abort a group, or shut it down as `destroy_process_group` does."""
    roll = session.rolls.get(group)
    if roll is not None:
        roll.end()
    original(group)


def end_backend(original: Callable, backend: Backend) -> None:
    """Abort what does the work of a group, or shut it down."""
    for roll in session.rolls.values():
        if roll.gloo is backend:
            roll.end()
    original(backend)


def warn_of_groups() -> None:
    """Warn of groups that nothing has ended, as their destructor does (`~ProcessGroupNCCL`)."""
    for roll in session.rolls.values():
        if not roll.has_ended and roll.rank % len(session.gpus) == 0:
            logs.warn_once("not destroyed")


def device_types(group: dist.ProcessGroup) -> list[torch.device]:
    """Return the types of device for which a group has a backend; gloo has one for all."""
    roll = session.rolls.get(group)
    if roll is not None and roll.only_nccl:
        return [torch.device("cuda")]
    return _device_types.__get__(group)


def name_of_group(original: Callable, self: dist.ProcessGroup) -> str:
    """Return the name of a group's backend (`getBackendName` of ProcessGroupNCCL.hpp)."""
    roll = session.rolls.get(self)
    return "nccl" if roll is not None and roll.only_nccl else original(self)


def logged_by_replicas(
    original: Callable, self: nn.parallel.DistributedDataParallel
) -> dict[str, Any]:
    """Return what DistributedDataParallel logs of itself, with the name of its backend."""
    data = original(self)
    data["backend_name"] = self.process_group.name()
    return data
