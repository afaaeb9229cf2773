"""What the programs share. A change in this file makes every recorded answer outdated."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

MIB = 2**20


def gpus(number: int) -> Callable:
    """Declare that a program needs so many GPUs; without this it needs one."""

    def mark(program: Callable) -> Callable:
        program.gpus = number
        return program

    return mark


def raised(call: Callable[[], Any]) -> str:
    """Return the class and the message of the error that `call` raises."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def errors(*calls: Callable[[], Any]) -> list[str]:
    """Return what `raised` gives for each call."""
    return [raised(call) for call in calls]


def beginning(call: Callable[[], Any]) -> str:
    """Return the first sentence of `raised`: the rest depends on the build."""
    first_line = raised(call).splitlines()[0]
    return first_line.partition(". ")[0]


def warned(call: Callable[[], Any]) -> list[str]:
    """Return the warnings of `call`, without their place in the C++ sources."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.set_warn_always(always)

    messages = []
    for warning in caught:
        text = f"{warning.category.__name__}: {warning.message}"
        messages.append(text.partition(" (Triggered internally")[0])
    return messages


def deterministic(call: Callable[[], Any]) -> list[str]:
    """Return the error of `call` in deterministic mode, then the warnings instead."""
    torch.use_deterministic_algorithms(True)
    try:
        messages = [raised(call)]
        torch.use_deterministic_algorithms(True, warn_only=True)
        messages += dict.fromkeys(warned(call))
    finally:
        torch.use_deterministic_algorithms(False)
    return [text.partition(". You can")[0].partition(". (")[0] for text in messages]


def places(*tensors: torch.Tensor) -> list[str]:
    """Return the devices of tensors, as text."""
    return [str(tensor.device) for tensor in tensors]


def block(mib: float) -> torch.Tensor:
    """Return a tensor of so many MiB on the current GPU."""
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def memory_held() -> tuple[int, int]:
    """Return the bytes that the allocator has given out, and those it has reserved."""
    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def allow(mib: float) -> None:
    """Let this process use so many MiB of the card."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((mib * MIB + 1) / total)


def layouts(*steps: tuple, allowed: int = 4096) -> list:
    """Return the segments after each step, and three counts at the end.

    A step is a series of changes. A number is a block of so many MiB to allocate; -2 frees
    the second block that was allocated; a text is a setting of the allocator. A segment is
    its size and the sizes of its blocks in MiB, negative where they are free.
    """
    allow(allowed)
    blocks: dict[int, torch.Tensor] = {}
    allocated = 0
    segments = []
    for step in steps:
        for change in step:
            if isinstance(change, str):
                torch._C._accelerator_setAllocatorSettings(change)
            elif change < 0:
                del blocks[-change]
            else:
                allocated += 1
                blocks[allocated] = block(change)
        segments.append(_segments())
    stats = torch.cuda.memory_stats()
    counts = (
        "num_alloc_retries",
        "inactive_split.all.current",
        "segment.all.current",
    )
    return segments + [stats[name] for name in counts]


def _segments() -> list[list]:
    """Return [size, sizes of its blocks] of each segment, sorted: addresses vary."""
    segments = []
    for segment in torch.cuda.memory_snapshot():
        sizes = []
        for part in segment["blocks"]:
            sign = 1 if part["state"] == "active_allocated" else -1
            sizes.append(sign * part["size"] / MIB)
        segments.append([segment["total_size"] / MIB, *sizes])
    return sorted(segments)


def captured(work: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return a CUDA graph of `work`, and what `work` returned during the capture."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def in_a_group(*calls: Callable[[], Any], **options: Any) -> list[str]:
    """Return the errors of calls within a process group of NCCL that has one rank."""
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, **options)
    try:
        return errors(*calls)
    finally:
        dist.destroy_process_group()
