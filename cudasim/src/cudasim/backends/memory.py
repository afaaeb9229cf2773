"""What the modules of torch report of the allocators of the simulated GPUs."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from cudasim.device.allocator import Memory
from cudasim.device.gpu import GPU
from cudasim.device.history import LEVELS, History
from cudasim.device.pools import PUBLIC, Block
from cudasim.dispatch.waiting import address
from cudasim.session import session


def memory(index: int) -> Any:
    """The memory of GPU `index`. Raises RuntimeError, with CUDA's text, if there is none."""
    if not 0 <= index < len(session.gpus):
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return session.gpus[index].memory


def empty_cache() -> None:
    """Give the driver back what is reserved and holds no tensor, on every GPU."""
    for gpu in session.gpus:
        gpu.memory.empty_cache()


def free_and_total(index: int) -> tuple[int, int]:
    """Bytes of GPU `index` that are free, and that there are, as the driver counts them.

    As on a card, whoever asks has a context on it.
    """
    memory = session.gpu(index).memory
    memory.touch()
    return memory.free, memory.size


# The names of `torch.cuda.memory_stats`, and of the counts that are told under them.
FIGURES = {
    "allocation": "blocks",
    "segment": "segments",
    "active": "blocks",
    "inactive_split": "splits",
    "allocated_bytes": "used",
    "reserved_bytes": "reserved",
    "active_bytes": "used",
    "inactive_split_bytes": "split_bytes",
    "requested_bytes": "requested",
}


def stats(memory: Memory) -> dict[str, Any]:
    """The figures, named and nested as `torch.cuda.memory_stats_as_nested_dict` has them."""
    kinds = {"all": memory.counts, "small_pool": memory.small.counts}
    kinds["large_pool"] = memory.large.counts
    result: dict[str, Any] = {
        "num_alloc_retries": memory.retries,
        "num_ooms": memory.refusals,
        "max_split_size": memory.settings.max_split_size,
        "num_sync_all_streams": memory.waits,
        "num_device_alloc": memory.taken,
        "num_device_free": memory.given,
        "num_oom_rejections": 0,
    }
    for public, name in FIGURES.items():
        result[public] = {kind: counts.stat(name) for kind, counts in kinds.items()}
    nothing = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    result["oversize_allocations"], result["oversize_segments"] = nothing, dict(nothing)
    return result


def snapshot(which: tuple | None = None) -> dict[str, list]:
    """The segments of every GPU, in the form of `torch.cuda.memory_snapshot`, and the history.

    `which` begins with the id of private pools, for their segments alone. The names are those
    of torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot).
    """
    pool = PUBLIC if which is None else tuple(which[:2])
    return {
        "segments": [
            _segment(gpu.index, blocks)
            for gpu in session.gpus
            for blocks in gpu.memory.segments()
            if pool in (PUBLIC, blocks[0].pool.id)
        ],
        "device_traces": [_events(gpu) for gpu in session.gpus],
        "allocator_settings": {
            "expandable_segments": session.settings.expandable,
            "max_split_size": session.settings.max_split_size,
        },
        "external_annotations": [],
    }


def _segment(index: int, blocks: list[Block]) -> dict[str, Any]:
    """The segment of GPU `index` that these `blocks` are."""
    first = blocks[0]
    used = [block for block in blocks if block.used]
    return {
        "device": index,
        "address": first.address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": sum(block.size for block in used),
        "active_size": sum(block.size for block in used),
        "requested_size": sum(block.requested for block in used),
        "stream": address(first.stream, index),
        "segment_type": "small" if first.pool.small else "large",
        "segment_pool_id": first.pool.id,
        "is_expandable": first.range is not None,
        "frames": list(first.origin),
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": "active_allocated" if block.used else "inactive",
                "frames": list(block.frames),
            }
            for block in blocks
        ],
    }


def _events(gpu: GPU) -> list[dict[str, Any]]:
    """The history of a GPU's memory, where one is kept."""
    history = gpu.memory.history
    if history is None:
        return []
    return [{**each, "stream": address(each["stream"], gpu.index)} for each in history.events]


def record_history(
    enabled: str | None,
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Iterable[str] = (),
) -> None:
    """Keep a history of every GPU's memory from now on; None ends it.

    The arguments are those of `torch.cuda.memory._record_memory_history`; `stacks` has no
    effect, as there are no frames but Python's. Raises RuntimeError, with PyTorch's words, for
    what is none of them.
    """
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in LEVELS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    entries = max_entries if enabled == "all" else 1
    for gpu in session.gpus:
        memory, history = gpu.memory, None
        if enabled is not None:
            history = History(LEVELS[context], entries, frozenset(skip_actions))
            if memory.history is not None and not clear_history:
                history.events.extend(memory.history.events)
        memory.record(history)


def record_history_legacy(
    enabled: bool,
    record_context: bool = True,
    max_entries: int = 1,
    record_alloc_context: bool = False,
    *more: Any,
) -> None:
    """The same, with the arguments of older versions of PyTorch."""
    context = "all" if record_alloc_context else "state" if record_context else None
    record_history("all" if enabled else None, context, max_entries=max_entries)


def observe_refusals(observer: Callable[[int, int, int, int], None]) -> None:
    """Call `observer` with (GPU, bytes asked for, bytes of the card, bytes free) when one is full.

    As `torch._C._cuda_attach_out_of_memory_observer`.
    """
    for gpu in session.gpus:
        gpu.memory.observers.append(observer)
