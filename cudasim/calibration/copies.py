"""How fast bytes travel: between host and card, and from card to card."""

from collections.abc import Callable

import torch

from calibration.stopwatch import Stopwatch

SIZES = {False: (2**24, 2**28), True: (2**20, 2**23)}  # bytes


def link(watch: Stopwatch, quick: bool) -> dict[str, float]:
    """Bytes/s by kind of host memory and direction, and the seconds before the first byte."""
    found = {}
    for kind in ("pinned", "pageable"):
        for way in ("in", "out"):
            found[f"{kind}_{way}"] = _line(_seconds(watch, kind, way), SIZES[quick])[0]
    least = _seconds(watch, "pinned", "in")(1024)
    return {**found, "latency": least - 1024 / found["pinned_in"]}


def peer(watch: Stopwatch, quick: bool) -> dict | None:
    """Bytes/s and latency to another card, and whether it grants access; None without one."""
    if torch.cuda.device_count() < 2:
        return None
    other = torch.device("cuda", 0 if watch.device.index else 1)

    def seconds(size: int) -> float:
        x = torch.rand(size // 4, device=watch.device)
        y = torch.empty_like(x, device=other)
        return watch.card(lambda: y.copy_(x, non_blocking=True), 4)

    rate, latency = _line(seconds, SIZES[quick])
    access = torch.cuda.can_device_access_peer(watch.device, other)
    return {"rate": rate, "latency": latency, "access": access}


def _seconds(watch: Stopwatch, kind: str, way: str) -> Callable[[int], float]:
    """The seconds of one copy, as a function of its bytes."""

    def seconds(size: int) -> float:
        there = torch.rand(size // 4, device=watch.device)
        here = torch.rand(size // 4)
        here = here.pin_memory() if kind == "pinned" else here
        to, source = (there, here) if way == "in" else (here, there)
        if kind == "pinned":
            return watch.card(lambda: to.copy_(source, non_blocking=True), 4)
        return watch.both(lambda: to.copy_(source), 4)

    return seconds


def _line(
    seconds: Callable[[int], float], sizes: tuple[int, int]
) -> tuple[float, float]:
    """(bytes/s, seconds at no bytes) of the line through two sizes."""
    small, large = (seconds(size) for size in sizes)
    rate = (sizes[1] - sizes[0]) / (large - small)
    return rate, small - sizes[0] / rate
