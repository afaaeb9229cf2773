"""What torch reports of the simulated GPUs' allocators, named as in torch/csrc/cuda/Module.cpp."""

from collections.abc import Callable
from typing import Any

from cudasim.device.allocator import Memory
from cudasim.device.gpu import GPU
from cudasim.device.history import LEVELS, History
from cudasim.device.pools import PUBLIC, Block
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.waiting import address
from cudasim.session import session


def of(index: int) -> Memory:
    """The memory of GPU `index`. Raises PyTorch's RuntimeError if there is none."""
    if not 0 <= index < len(session.gpus):
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return session.gpus[index].memory


def empty_cache() -> None:
    for gpu in session.gpus:
        gpu.memory.empty_cache()


def free_and_total(index: int) -> tuple[int, int]:
    """Bytes of GPU `index` as the driver counts them. As on a card, who asks has a context."""
    memory = session.gpu(index).memory
    memory.touch()
    return memory.free, memory.size


# The names of `torch.cuda.memory_stats`, and of the counts that are told under them.
FIGURES = TABLES["memory_stats"]


def stats(memory: Memory) -> dict[str, Any]:
    pools = ("all", memory), ("small_pool", memory.small), ("large_pool", memory.large)
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
        result[public] = {kind: pool.counts.stat(name) for kind, pool in pools}
    for public in ("oversize_allocations", "oversize_segments"):
        result[public] = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    return result


def snapshot(which: tuple | None = None) -> dict[str, list]:
    """The segments of every GPU, or of the pools whose id begins `which`, and their history."""
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
    first = blocks[0]
    used = sum(block.size for block in blocks if block.used)
    return {
        "device": index,
        "address": first.address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block.requested for block in blocks if block.used),
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
    events = getattr(gpu.memory.history, "events", ())
    return [
        {**event, "stream": address(event["stream"], gpu.index)} for event in events
    ]


def record_history(
    enabled: str | None,
    context: str | None,
    stacks: str,
    entries: int,
    clear: bool,
    *more: Any,
) -> None:
    """Keep a history of every GPU's memory from now on; None ends it. `stacks` has no effect: there
    are no frames but Python's. `more[2]` is `skip_actions`; torch 2.14 adds `record_cuda`, last."""
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in LEVELS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    for gpu in session.gpus if all(more[4:]) else ():
        before, history = gpu.memory.history, None
        if enabled is not None:
            entries = entries if enabled == "all" else 1
            history = History(LEVELS[context], entries, frozenset(more[2]))
            if before is not None and not clear:
                history.events.extend(before.events)
        gpu.memory.record(history)


def record_history_legacy(
    enabled: bool, context: bool, entries: int, context_of_allocations: bool, *more: Any
) -> None:
    level = "all" if context_of_allocations else "state" if context else None
    record_history("all" if enabled else None, level, "all", entries, False, *more[2:])


def observe_refusals(observer: Callable[[int, int, int, int], None]) -> None:
    for gpu in session.gpus:
        gpu.memory.observers.append(observer)
