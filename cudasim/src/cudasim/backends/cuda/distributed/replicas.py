"""DistributedDataParallel over a module whose layers are on several GPUs.

C++ takes all of our tensors to be on the CPU. So it is handed those of each GPU apart.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cudasim.backends.cuda.distributed import refusals
from cudasim.backends.cuda.distributed.groups import roll_of
from cudasim.device.gpu import GPU
from cudasim.dispatch.tags import gpu_of, put
from cudasim.modes import LightMode
from cudasim.patching import changed
from cudasim.session import session


def by_gpu(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the positions of the tensors on each GPU."""
    positions: dict[GPU | None, list[int]] = {}
    for position, tensor in enumerate(tensors):
        positions.setdefault(gpu_of(tensor), []).append(position)
    return list(positions.values())


def broadcast_coalesced(
    original: Callable, group: Any, tensors: list, *rest: Any
) -> None:
    for positions in by_gpu(tensors):
        original(group, _at(positions, tensors), *rest)


def verify_parameters(
    original: Callable, group: Any, parameters: list, *rest: Any
) -> None:
    """Compare the shapes of parameters between ranks, on the device of the first.

    C++ makes the tensors that it compares, so their device is unknown where they are sent.
    """
    roll = roll_of(group)
    on_host = bool(parameters) and gpu_of(parameters[0]) is None
    if roll is not None and roll.only_nccl and on_host:
        raise RuntimeError(refusals.CPU)
    original(group, parameters, *rest)


def assign_buckets(
    original: Callable, tensors: list, limits: Any, sparse: Any = (), *rest: Any
) -> tuple:
    """Assign gradients to buckets, so that no bucket holds tensors of two GPUs."""
    buckets = []  # (positions of its tensors, its limit)
    for positions in by_gpu(tensors):
        chosen = _at(positions, tensors)
        chosen_sparse = _at(positions, sparse) if sparse else []
        members, bucket_limits = original(chosen, limits, chosen_sparse, *rest)
        for bucket, limit in zip(members, bucket_limits, strict=True):
            buckets.append((_at(bucket, positions), limit))
    buckets.sort(key=lambda bucket: min(bucket[0]))  # as C++ does
    return [bucket for bucket, _ in buckets], [limit for _, limit in buckets]


def _at(positions: Sequence[int], values: Sequence) -> list:
    return [values[position] for position in positions]


class BucketMode(LightMode):
    """Puts the buckets that C++ makes for gradients on the GPUs of their parameters.

    `Reducer::initialize_buckets` (torch/csrc/distributed/c10d/reducer.cpp) makes one tensor
    for each, with the device and the type of its parameters. The other tensors that it
    makes meanwhile are of integers, and are placed as they are used.
    """

    def __init__(self, gpus: Iterable[GPU | None]) -> None:
        """Take the GPU of each bucket, in their order."""
        super().__init__()
        self.gpus = iter(gpus)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple, kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.empty.memory_format and not _holds_integers(out):
            put(out, next(self.gpus))
        return out


def _holds_integers(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def make_reducer(original: type) -> type:
    """Return a `Reducer` that can hold parameters on several GPUs.

    Over several it keeps the buckets that it was given. Any other puts them together anew
    after the first step, in the order in which gradients came.
    """

    class Reducer(original):
        def __init__(
            self,
            parameters: Sequence[Tensor],
            buckets: Sequence[Sequence[int]],
            limits: Sequence[int],
            group: Any,
            sparse: Sequence[bool] = (),
            *args: Any,
            **kwargs: Any,
        ) -> None:
            self._keeps_buckets = len(by_gpu(parameters)) > 1
            self._gpu = gpu_of(parameters[0]) if parameters else None
            gpus = []
            for first, *_ in buckets:
                if not (sparse and sparse[first]):  # such gradients have no bucket
                    gpus.append(gpu_of(parameters[first]))
            with _making_buckets(gpus):
                super().__init__(
                    parameters, buckets, limits, group, sparse, *args, **kwargs
                )

        def _rebuild_buckets(self) -> bool:
            if self._keeps_buckets:
                return False
            with _making_buckets(itertools.repeat(self._gpu)):
                return super()._rebuild_buckets()

    return Reducer


@contextmanager
def _making_buckets(gpus: Iterable[GPU | None]) -> Iterator[None]:
    """Let C++ make buckets on `gpus`, and other tensors that it keeps."""
    with changed(session.thread, makes_lasting=True), BucketMode(gpus):
        yield
