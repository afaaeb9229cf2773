"""Three ways to time work on a GPU: what the host pays, what the card pays, what both do together.

Each gives the median of several readings, after a warm-up, in seconds for one call.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch

from calibration.workloads import Workload

READINGS = 7
BACKLOG = 200  # calls that wait in the stream at once; its queue holds 1024


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Let products and convolutions of float32 use TF32, or not, for a while."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [each.allow_tf32 for each in switches]
    try:
        for each in switches:
            each.allow_tf32 = allowed
        yield
    finally:
        for each, was in zip(switches, before, strict=True):
            each.allow_tf32 = was


class Stopwatch:
    """Times calls on one GPU. `quick` takes fewer readings."""

    def __init__(self, device: torch.device, quick: bool = False) -> None:
        """A stopwatch that has warmed up."""
        self.device = device
        self.readings = 1 if quick else READINGS
        size = 1024 if quick else 2048
        self._block = torch.rand(size, size, device=device)
        with tf32(True):  # the least that a block can last
            self._block_seconds = self.both(self._keep_busy)
        small = torch.rand(64, device=device)
        self._call_seconds = self.host(lambda: small + small)

    def host(self, work: Callable[[], object], calls: int = BACKLOG) -> float:
        """Seconds for which the host is busy with a call that it does not wait for."""

        def reading() -> float:
            self._synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                work()
            return (time.perf_counter() - start) / calls

        return self._median(reading)

    def both(self, work: Callable[[], object], calls: int = 1) -> float:
        """Seconds from before `calls` calls until the card has done them all, for one of them."""

        def reading() -> float:
            self._synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                work()
            self._synchronize()
            return (time.perf_counter() - start) / calls

        return self._median(reading)

    def card(self, work: Callable[[], object], calls: int = 10) -> float:
        """Seconds for which the card is busy with a call.

        The calls wait in the stream behind other work, so that the card never waits for the
        host; without that, small kernels show how fast they are launched.
        """
        submitting = (
            4 * calls * self._call_seconds
        )  # 4: some calls do more than an addition
        blocks = 1 + int(submitting / self._block_seconds)

        def reading() -> float:
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(blocks):
                self._keep_busy()
            first.record()
            for _ in range(calls):
                work()
            last.record()
            last.synchronize()
            return first.elapsed_time(last) * 1e-3 / calls

        return self._median(reading)

    def _keep_busy(self) -> None:
        torch.mm(self._block, self._block)

    def _synchronize(self) -> None:
        torch.cuda.synchronize(self.device)

    def _median(self, reading: Callable[[], float]) -> float:
        reading()  # warms up
        return statistics.median(reading() for _ in range(self.readings))


def workload_seconds(
    workload: Workload,
    device: torch.device,
    quick: bool,
    warm_ups: int = 1,
    readings: int = 9,
) -> float:
    """Seconds of one call of `workload` on `device`, by the clock of this process: the median.

    The readings begin and end with a wait for the card. One is enough if it is `quick`.
    """
    torch.manual_seed(0)
    work = workload.prepare(device, workload.quick if quick else workload.size)

    def reading() -> float:
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(workload.calls):
            work()
        torch.cuda.synchronize(device)
        return (time.perf_counter() - start) / workload.calls

    with tf32(True) if workload.precision == "tf32" else nullcontext():
        for _ in range(warm_ups):
            reading()
        return statistics.median(reading() for _ in range(1 if quick else readings))
