"""The timelines of all ranks of a run as one: a group of lanes for each rank."""

import itertools
import json
from dataclasses import astuple

import torch.distributed as dist

from cudasim.clock.clock import Span

_numbers = itertools.count()  # of what this process has gathered


def gather(
    recorded: list[Span], source: str, notes: list[str]
) -> tuple[list[Span], str, list[str]]:
    """The spans that every rank gathers here, side by side, their source, and what is noted.

    Each rank gives its own and gets those of all. They are told through the store of the default
    group, which takes no modelled time. Raises RuntimeError without such a group.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "gather(): there are no ranks; call torch.distributed.init_process_group() first, and "
            "gather() before destroy_process_group()"
        )
    store = dist.PrefixStore("cudasim/timeline", dist.distributed_c10d._get_default_store())
    number, size = next(_numbers), dist.get_world_size()
    mine = [[*map(astuple, recorded)], source, notes]
    store.set(f"{number}/{dist.get_rank()}", json.dumps(mine))
    spans, sources, noted = [], {}, []
    for rank in range(size):
        recorded, source, notes = json.loads(store.get(f"{number}/{rank}"))
        spans += [Span(f"rank {rank}: {lane}", *rest) for lane, *rest in recorded]
        noted += [f"rank {rank}: {note}" for note in notes]
        sources |= {source: None} if source else {}
    return spans, f"{' and '.join(sources)}, {size} ranks", noted
