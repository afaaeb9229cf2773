"""The few helpers of the programs, so that a program can be read alone."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def gpus(number: int, fork: bool = False) -> Callable:
    """Say how many GPUs a program needs, and whether it needs a system that can fork.

    It is read from the source: to Python the decorator means nothing.
    """
    return lambda program: program


def raised(call: Callable[[], Any]) -> str:
    """The error that `call` raises: its class and its words to the letter."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def beginning(call: Callable[[], Any]) -> str:
    """The first sentence of the error that `call` raises: what follows depends on the build."""
    return raised(call).splitlines()[0].partition(". ")[0]


def warned(call: Callable[[], Any]) -> list[str]:
    """The warnings that `call` gives, each with its class, less their place in C++."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.set_warn_always(always)
    texts = [f"{each.category.__name__}: {each.message}" for each in caught]
    return [text.partition(" (Triggered internally")[0] for text in texts]


def places(*tensors: torch.Tensor) -> list[str]:
    """The devices of tensors, as text."""
    return [str(tensor.device) for tensor in tensors]


def memory_held() -> tuple[int, int]:
    """What the current GPU's allocator has given out and what it has taken, in bytes."""
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def layouts(*steps: tuple, allowed: int = 4096) -> list[list[list[float]]]:
    """Where blocks of memory lie after each step, and what is counted of them in the end.

    A step is what is set (a text), or taken in MiB, or given back (-1: what was taken first). For
    each segment its size and its blocks are told in MiB, free ones below 0.
    """
    mib, signs = 2**20, {"active_allocated": 1, "inactive": -1}
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((allowed * mib + 1) / total)
    held, told = [None], []  # so that the first is number 1
    for step in steps:
        for change in step:
            if isinstance(change, str):
                torch._C._accelerator_setAllocatorSettings(change)
            elif change < 0:
                held[-change] = None
            else:
                held.append(
                    torch.empty(int(change * mib), dtype=torch.uint8, device="cuda")
                )
        segments = torch.cuda.memory_snapshot()
        told.append([[each["total_size"] / mib, each["blocks"]] for each in segments])
        for segment in told[-1]:
            segment[1:] = [
                signs[each["state"]] * each["size"] / mib for each in segment[1]
            ]
        told[-1].sort()  # the driver says where a segment is
    stats, split = torch.cuda.memory_stats(), "inactive_split.all.current"
    return [
        *told,
        stats["num_alloc_retries"],
        stats[split],
        stats["segment.all.current"],
    ]


def deterministic(call: Callable[[], Any]) -> list[str]:
    """What `call` says where it must be deterministic: its error, and its warnings instead."""
    torch.use_deterministic_algorithms(True)
    try:
        said = [raised(call)]
        torch.use_deterministic_algorithms(True, warn_only=True)
        said += dict.fromkeys(warned(call))
    finally:
        torch.use_deterministic_algorithms(False)
    return [text.partition(". You can")[0].partition(". (")[0] for text in said]


def in_a_group(*calls: Callable[[], Any], **options: Any) -> list[str]:
    """The errors that calls raise in a process group of NCCL that has one rank."""
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, **options)
    try:
        return [raised(call) for call in calls]
    finally:
        dist.destroy_process_group()


def captured(work: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A CUDA graph of `work`, and what it returned while it was captured."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result
