"""What the allocator of every simulated GPU holds, as `torch.cuda.memory_snapshot` tells it."""

from typing import Any

from cudasim.device import gpus


def snapshot(*which: Any) -> dict[str, list]:
    """The segments of every GPU, as `torch.cuda.memory_snapshot` tells them; no history."""
    segments = []
    for gpu in gpus.gpus:
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
        "device_traces": [[] for _ in gpus.gpus],
        "allocator_settings": {},
        "external_annotations": [],
    }
