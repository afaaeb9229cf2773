"""Python's functions between processes, where gloo needs more care than NCCL."""

import operator
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor

from cudasim.backends.cuda.distributed.groups import bind_arguments, roll_of
from cudasim.backends.cuda.distributed.rollcall import Request, Roll
from cudasim.backends.cuda.distributed.works import works_of_nccl
from cudasim.dispatch.arguments import tensors_in
from cudasim.torch_private.distributed import CoalescingManager, check_messages
from cudasim.torch_private.tensors import use_count

LETTING_GO = 0.2  # seconds at most that gloo's thread is waited for


def collective(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run one of PyTorch's functions, and see to it that gloo lets go of its tensors.

    The operators that the function calls check the tensors. Groups of gloo's own are left
    alone.
    """
    arguments = bind_arguments(original, args, kwargs)
    if roll_of(arguments.get("group")) is None:
        return original(**arguments)
    tensors = tensors_in(arguments.values())
    use_counts = list(map(use_count, tensors))
    work = original(**arguments)
    if work is None:
        wait_for_release(tensors, use_counts)
    elif isinstance(work, dist.Work):
        works_of_nccl.add(work)
    return work


def wait_for_release(tensors: list[Tensor], use_counts: list[int]) -> None:
    """Wait until gloo's thread holds none of the `tensors`, which had so many owners before.

    It drops them a moment after the collective is done. If it is the last owner, and that
    moment comes when the interpreter ends, while a variable holds the group, PyTorch
    aborts the process.
    """
    until = time.monotonic() + LETTING_GO  # something else may keep them
    while any(map(operator.gt, map(use_count, tensors), use_counts)):
        if time.monotonic() > until:
            return
        time.sleep(0)


def message(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Send or receive; where gloo gives up waiting, the error names the rank."""
    begin = time.monotonic()
    try:
        return collective(original, *args, **kwargs)
    except RuntimeError as error:
        waited = time.monotonic() - begin
        arguments = bind_arguments(original, args, kwargs)
        roll = roll_of(arguments.get("group"))
        if roll is None or "Timed out" not in str(error):
            raise
        peer = arguments.get("src", arguments.get("dst"))
        in_group = arguments.get("group_src", arguments.get("group_dst"))
        if in_group is not None:
            peer = roll.ranks[in_group]
        kind = original.__name__.upper()
        work = Request(kind, [arguments["tensor"]], [], []).work(roll.messages)
        raise roll.timed_out(work, waited, [peer], []) from error


def batch(original: Callable, *args: Any, **kwargs: Any) -> Any:
    """Run several sends and receives at once, those of a rank with itself among them."""
    (operations,) = bind_arguments(original, args, kwargs).values()
    check_messages(operations)  # as PyTorch begins
    roll = roll_of(operations[0].group)
    if roll is None:
        return original(operations)
    roll.messages += 1
    with roll.messages_to_self.batch():
        return original(operations)


def coalescing(original: Callable, *args: Any, **kwargs: Any) -> AbstractContextManager:
    """Run collectives one by one where a device is named: gloo cannot put them together."""
    arguments = bind_arguments(original, args, kwargs)
    roll = roll_of(arguments.get("group"))
    if arguments.get("device") is not None and roll is not None:
        return _one_by_one(roll)
    return original(**arguments)


@contextmanager
def _one_by_one(roll: Roll) -> Iterator[CoalescingManager]:
    with roll.messages_to_self.batch():
        yield CoalescingManager()
