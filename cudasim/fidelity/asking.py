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
