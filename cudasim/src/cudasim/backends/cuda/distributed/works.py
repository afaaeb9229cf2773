"""What a work of NCCL answers, where gloo's has another answer or none.

See `WorkNCCL` in torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
"""

from collections.abc import Callable
from weakref import WeakSet

import torch.distributed as dist

from cudasim.patching import Patches
from cudasim.torch_private import distributed as private
from cudasim.words import WORDS

works_of_nccl: WeakSet[dist.Work] = WeakSet()


def patch_works(patches: Patches) -> None:
    patches.replace(dist.Work, "block_current_stream", block_current_stream)
    patches.wrap(*private.DURATION, duration)


def block_current_stream(work: dist.Work) -> None:
    """Let the current stream wait for a work, for which the CPU has no kernel."""
    work.wait()


def duration(original: Callable, work: dist.Work) -> float:
    """Return how long a work took, which nothing has measured (`getDuration`)."""
    if work in works_of_nccl:
        raise RuntimeError(WORDS["NCCL"]["duration"])
    return original(work)
