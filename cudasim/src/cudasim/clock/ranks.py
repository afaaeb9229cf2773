"""What the ranks of a run tell each other of their timelines."""

import itertools
import json
from typing import Any

import torch.distributed as dist

_numbers = itertools.count()  # of what this process has gathered


def gather(mine: Any) -> list[Any]:
    """What every rank gives here, in the order of ranks. They are told through the store of the
    default group, which takes no modelled time. Raises RuntimeError without such a group."""
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "gather(): there are no ranks; call torch.distributed.init_process_group() first, and "
            "gather() before destroy_process_group()"
        )
    store = dist.PrefixStore("cudasim/timeline", dist.distributed_c10d._get_default_store())
    number = next(_numbers)
    store.set(f"{number}/{dist.get_rank()}", json.dumps(mine))
    return [json.loads(store.get(f"{number}/{rank}")) for rank in range(dist.get_world_size())]
