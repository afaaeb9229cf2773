"""What the modules of torch report of the allocators of the simulated GPUs."""

from typing import Any

from cudasim.device.allocator import Block
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


def snapshot(*which: Any) -> dict[str, list]:
    """The segments of every GPU, in the form of `torch.cuda.memory_snapshot`; no history.

    The names are those of torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot).
    """
    return {
        "segments": [
            _segment(gpu.index, blocks) for gpu in session.gpus for blocks in gpu.memory.segments()
        ],
        "device_traces": [[] for _ in session.gpus],
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
        "segment_pool_id": (0, 0),
        "is_expandable": first.range is not None,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": "active_allocated" if block.used else "inactive",
                "frames": [],
            }
            for block in blocks
        ],
    }


def change_settings(text: str) -> None:
    """Follow what `torch.cuda.memory._set_allocator_settings` is told. Raises as `change` does."""
    session.settings.change(text)
