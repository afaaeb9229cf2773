"""What torch reports of the simulated GPUs' allocators.

Names are those of torch/csrc/cuda/Module.cpp.
"""

from collections.abc import Callable
from typing import Any

from cudasim.device.allocator import Memory
from cudasim.device.gpu import GPU
from cudasim.device.history import LEVELS, STATE, History
from cudasim.device.pools import PUBLIC, Block
from cudasim.dispatch.tables import TABLES
from cudasim.dispatch.waiting import address
from cudasim.session import session
from cudasim.words import WORDS

# The names of `torch.cuda.memory_stats`, and of our counts that are reported under them.
COUNTS = TABLES["memory_stats"]


def of(index: int) -> Memory:
    """Return the memory of GPU `index`. Raises PyTorch's RuntimeError if there is none."""
    if not 0 <= index < len(session.gpus):
        raise RuntimeError(f"Invalid device argument {index}: did you call init?")
    return session.gpus[index].memory


def empty_cache() -> None:
    """Give segments without tensors back to the driver, which first waits for the GPU."""
    for gpu in session.gpus:
        reserved = gpu.memory.reserved
        gpu.memory.empty_cache()
        if session.races is not None and gpu.memory.reserved < reserved:
            session.races.wait_for_gpu(gpu.index)


def free_and_total(index: int) -> tuple[int, int]:
    """Return bytes of GPU `index` as the driver counts them.

    As on a card, the question makes a context.
    """
    memory = session.gpu(index).memory
    memory.touch()
    return memory.free, memory.size


def stats(memory: Memory) -> dict[str, Any]:
    result: dict[str, Any] = {
        "num_alloc_retries": memory.retries,
        "num_ooms": memory.refusals,
        "max_split_size": memory.settings.max_split_size,
        "num_sync_all_streams": memory.stream_syncs,
        "num_device_alloc": memory.driver_allocations,
        "num_device_free": memory.driver_frees,
        "num_oom_rejections": 0,
    }
    for public_name, name in COUNTS.items():
        result[public_name] = {
            "all": memory.counts.stat(name),
            "small_pool": memory.small.counts.stat(name),
            "large_pool": memory.large.counts.stat(name),
        }
    for public_name in ("oversize_allocations", "oversize_segments"):
        result[public_name] = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    return result


def snapshot(which: tuple | None = None) -> dict[str, list]:
    """Return the segments of every GPU, and their history.

    Only those of the pool whose id `which` begins with, if it names one.
    """
    pool_id = PUBLIC if which is None else tuple(which[:2])
    segments = []
    for gpu in session.gpus:
        for blocks in gpu.memory.segments():
            if pool_id in (PUBLIC, blocks[0].pool.id):
                segments.append(_describe_segment(gpu.index, blocks))
    return {
        "segments": segments,
        "device_traces": [_events(gpu) for gpu in session.gpus],
        "allocator_settings": _settings(),
        "external_annotations": [],
    }


def _settings() -> dict[str, Any]:
    """Return what THCPModule_memorySnapshot says of them (torch/csrc/cuda/Module.cpp)."""
    settings = session.settings
    divisions = enumerate(settings.divisions)
    return {
        "PYTORCH_CUDA_ALLOC_CONF": settings.text,
        "max_split_size": settings.max_split_size,
        "garbage_collection_threshold": settings.threshold,
        "expandable_segments": settings.expandable,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {str(2**power): n for power, n in divisions},
        "graph_capture_record_stream_reuse": False,
    }


def _describe_segment(index: int, blocks: list[Block]) -> dict[str, Any]:
    first = blocks[0]
    used_blocks = [block for block in blocks if block.used]
    used = sum(block.size for block in used_blocks)
    return {
        "device": index,
        "address": first.address,
        "total_size": sum(block.size for block in blocks),
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block.requested for block in used_blocks),
        "stream": address(first.stream, index),
        "segment_type": "small" if first.pool.small else "large",
        "segment_pool_id": first.pool.id,
        "is_expandable": first.range is not None,
        "frames": list(first.origin),
        "blocks": [_describe_block(block) for block in blocks],
    }


def _describe_block(block: Block) -> dict[str, Any]:
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.requested,
        "state": "active_allocated" if block.used else "inactive",
        "frames": list(block.frames),
    }


def _events(gpu: GPU) -> list[dict[str, Any]]:
    history = gpu.memory.history
    if history is None:
        return []
    return [
        {**event, "stream": address(event["stream"], gpu.index)}
        for event in history.events
    ]


def record_history(
    enabled: str | None,
    context: str | None,
    stacks: str,
    entries: int,
    clear: bool,
    *more: Any,
) -> None:
    """Keep a history of every GPU's memory from now on; None ends it.

    `stacks` has no effect: there are no frames but Python's. `more[2]` is `skip_actions`;
    PyTorch 2.14 adds `record_cuda`, last.
    """
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in LEVELS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    if not all(more[4:]):  # PyTorch 2.14 may leave out CUDA
        return

    limit = entries if enabled == "all" else 1
    for gpu in session.gpus:
        history = None
        if enabled is not None:
            skipped = frozenset(more[2])
            history = History(LEVELS[context], limit, skipped, metadata)
            before = gpu.memory.history
            if before is not None and not clear:
                history.events.extend(before.events)
        gpu.memory.record(history)


def record_history_legacy(
    enabled: bool, context: bool, entries: int, context_of_allocations: bool, *more: Any
) -> None:
    level = None
    if context_of_allocations:
        level = "all"
    elif context:
        level = "state"
    state = "all" if enabled else None
    record_history(state, level, "all", entries, False, *more[2:])


def is_history_enabled() -> bool:
    return session.current().memory.history is not None


def metadata() -> str:
    """Return what this thread adds to the events of a history.

    It is kept for each thread, as in DeviceCachingAllocator
    (https://github.com/pytorch/pytorch/pull/165490).
    """
    return session.thread.memory_metadata


def set_metadata(text: str) -> None:
    session.thread.memory_metadata = text


def annotate(pointer: int, text: str) -> None:
    """Add `text` to the history of a block, if one is kept (since PyTorch 2.14)."""
    if not _keeps_history():
        return
    memory, block = _find_block(pointer)
    frames = memory.history.here(STATE)
    memory.history.add(
        "annotate",
        block.address,
        block.size,
        block.stream,
        frames,
        user_metadata=text,
    )


def traceback_of(pointer: int) -> list[dict[str, Any]] | None:
    """Return the code that took a block; None if no history has kept it."""
    if not _keeps_history():
        return None
    _, block = _find_block(pointer)
    return list(block.frames) or None


def _keeps_history() -> bool:
    return any(gpu.memory.history is not None for gpu in session.gpus)


def _find_block(pointer: int) -> tuple[Memory, Block]:
    """Return the block that is used at an address of `memory_snapshot`, and its memory.

    Raises NotImplementedError for any other, such as a `data_ptr()`.
    """
    for gpu in session.gpus:
        gpu.memory.settle()
        block = gpu.memory.used.get(pointer)
        if block is not None and gpu.memory.history is not None:
            return gpu.memory, block
    raise NotImplementedError(WORDS["allocator"]["address"].format(pointer))


def observe_refusals(observer: Callable[[int, int, int, int], None]) -> None:
    for gpu in session.gpus:
        gpu.memory.observers.append(observer)
