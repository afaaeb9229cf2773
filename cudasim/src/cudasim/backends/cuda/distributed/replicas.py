"""DistributedDataParallel over a module whose layers are on several GPUs: C++, which takes all of
ours to be on the CPU, is handed the tensors of each GPU apart."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from cudasim.dispatch.tags import gpu_of
from cudasim.patching import changed
from cudasim.session import session


def by_gpu(tensors: Sequence[Tensor]) -> list[list[int]]:
    found: dict[Any, list[int]] = {}
    for position, tensor in enumerate(tensors):
        found.setdefault(gpu_of(tensor), []).append(position)
    return list(found.values())


def broadcast_coalesced(
    original: Callable, group: Any, tensors: list, *rest: Any
) -> None:
    for part in by_gpu(tensors):
        original(group, [tensors[position] for position in part], *rest)


def assign_buckets(
    original: Callable, tensors: list, limits: Any, sparse: Any = (), *rest: Any
) -> tuple:
    """`_compute_bucket_assignment_by_size`: no bucket holds tensors of two GPUs."""
    buckets = []
    for part in by_gpu(tensors):
        wanted = [sparse[position] for position in part] if sparse else []
        chosen = [tensors[position] for position in part]
        for bucket, limit in zip(*original(chosen, limits, wanted, *rest), strict=True):
            buckets.append(([part[position] for position in bucket], limit))
    buckets.sort(key=lambda bucket: min(bucket[0]))  # as C++ does
    return [bucket for bucket, _ in buckets], [limit for _, limit in buckets]


def make_reducer(original: type) -> type:
    """`Reducer`: one over several GPUs keeps the buckets that it was given. Others are put together
    anew after the first step, in the order in which gradients came."""

    class Reducer(original):
        def __init__(
            self, parameters: Sequence[Tensor], *args: Any, **kwargs: Any
        ) -> None:
            self._keeps = len(by_gpu(parameters)) > 1
            with changed(session.thread, lasting=True):  # the buckets
                super().__init__(parameters, *args, **kwargs)

        def _rebuild_buckets(self) -> bool:
            with changed(session.thread, lasting=True):
                return not self._keeps and super()._rebuild_buckets()

    return Reducer
