"""Count the bytes that are copied between devices."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cudasim.clock.clock import Clock
from cudasim.lab import devices
from cudasim.modes import LightMode
from cudasim.torch_private.operators import foreach_copy_, read_number, to_copy

aten = torch.ops.aten
COPIES = (aten.copy_.default, foreach_copy_)


class _Copies(LightMode):
    """Adds up the bytes of all operations that copy from one device to another."""

    nbytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function is to_copy:
            self.add(result, args[0])
        elif function in COPIES:
            self.add(args[0], args[1])
        elif function is read_number and args[0].device.type != "cpu":
            self.nbytes += args[0].element_size()
        return result

    def add(self, target: Tensor | list, source: Tensor | list) -> None:
        if isinstance(target, Tensor):
            target, source = [target], [source]
        for copy, original in zip(target, source, strict=True):
            if copy.device != original.device:
                self.nbytes += copy.numel() * copy.element_size()


def bytes_copied(work: Callable[[], Any]) -> int:
    """Return the bytes that `work()` copies between the host and GPUs, or between two GPUs.

    A copy from one GPU to another counts once, and a number that Python reads counts with
    its own size. Without a GPU the result is 0.

    If times are modelled, every copy of the simulation is counted. Otherwise PyTorch's
    operators are counted, and some copies are missing: those in other threads, those
    within C++ functions, such as the size of a mask or a broadcast of `DataParallel`, and
    the arguments of kernels.
    """
    if devices.is_modelled():
        return _bytes_on_clock(work, devices.session().clock)
    with _Copies() as copies:
        work()
    return copies.nbytes


def _bytes_on_clock(work: Callable[[], Any], clock: Clock) -> int:
    mark = clock.mark()
    work()
    copies = set()
    for span in clock.since(mark):
        if span.kind == "copy":  # one between two GPUs has a span on each of them
            copies.add((span.start, span.end, span.size or 0))
    return sum(size for _, _, size in copies)
