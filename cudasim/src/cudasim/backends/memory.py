"""What the modules of torch report of the allocators of the simulated GPUs."""

from typing import Any

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
    """Bytes of GPU `index` that are free, and that there are, as the driver counts them."""
    memory = session.gpu(index).memory
    return memory.size - memory.counts.reserved, memory.size


def snapshot(*which: Any) -> dict[str, list]:
    """The segments of every GPU, in the form of `torch.cuda.memory_snapshot`; no history."""
    segments = []
    for gpu in session.gpus:
        for pool in (gpu.memory.small, gpu.memory.large):
            for number, segment in enumerate(pool.segments):
                used = segment.size - segment.free
                address = 0x7F0000000000 + (gpu.index << 40) + (number << 24)
                pieces = (("active_allocated", used), ("inactive", segment.free))
                blocks = [
                    {"size": size, "requested_size": size, "state": state, "address": address}
                    for state, size in pieces
                    if size
                ]
                segments.append(
                    {
                        "device": gpu.index,
                        "address": address,
                        "total_size": segment.size,
                        "allocated_size": used,
                        "active_size": used,
                        "requested_size": used,
                        "stream": 0,
                        "segment_type": "small" if pool.small else "large",
                        "segment_pool_id": (0, 0),
                        "is_expandable": False,
                        "frames": [],
                        "blocks": blocks,
                    }
                )
    return {
        "segments": segments,
        "device_traces": [[] for _ in session.gpus],
        "allocator_settings": {},
        "external_annotations": [],
    }
