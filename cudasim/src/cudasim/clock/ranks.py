"""The timelines of all ranks of a run as one: a group of lanes for each rank."""

import dataclasses
import itertools
import json

import torch.distributed as dist

from cudasim.clock.clock import Span

PREFIX = "cudasim/timeline"
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
    store = dist.PrefixStore(PREFIX, dist.distributed_c10d._get_default_store())
    number, rank, size = next(_numbers), dist.get_rank(), dist.get_world_size()
    spans = [dataclasses.astuple(each) for each in recorded]
    store.set(f"{number}/{rank}", json.dumps([spans, source, notes]))
    told = [json.loads(store.get(f"{number}/{each}")) for each in range(size)]
    joined = [
        Span(f"rank {each}: {lane}", *rest)
        for each, (spans, _, _) in enumerate(told)
        for lane, *rest in spans
    ]
    noted = [f"rank {each}: {note}" for each, (_, _, all) in enumerate(told) for note in all]
    sources = dict.fromkeys(source for _, source, _ in told if source)
    return joined, f"{' and '.join(sources)}, {size} ranks", noted
