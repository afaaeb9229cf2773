"""Seconds from flops and bytes: the roofline model, with a floor.

Source of the roofline: Williams, Waterman, Patterson, Commun. ACM 52(4), 2009.
"""

from dataclasses import dataclass

from cudasim.timing.sheets import Host, Sheet


@dataclass(frozen=True)
class Work:
    """What one operation does on a device.

    `kind` is one of matmul, convolution, pointwise, reduction, gather, copy, other. `flops` and
    `bytes` (read and written) are totals. `shape` is (batch, m, n, k) of a product.
    """

    kind: str
    flops: float
    bytes: float
    precision: str = "float32"
    kernels: int = 1
    shape: tuple[int, int, int, int] | None = None


def bounds(work: Work, sheet: Sheet) -> tuple[float, float]:
    """(seconds that computing needs, seconds that memory needs) for `work` on a card."""
    peaks = sheet.peak if work.kind in ("matmul", "convolution") else sheet.vector
    peak = peaks.get(work.precision) or sheet.vector["float32"]
    computing = work.flops / (peak * sheet.efficiency.get(work.kind, 1.0))
    return computing, work.bytes / (sheet.bandwidth * sheet.efficiency["memory"])


def kernel_seconds(work: Work, sheet: Sheet) -> float:
    """Seconds that `work` takes on a card, once its stream has come to it."""
    return max(*bounds(work, sheet), sheet.floor * work.kernels)


def host_seconds(work: Work, host: Host) -> float:
    """Seconds that `work` takes on the host, without the call of the operation."""
    peak = host.peak.get(work.precision) or host.peak["float32"]
    return max(work.flops / peak, work.bytes / host.bandwidth)


def copy_seconds(size: float, sheet: Sheet, kind: str) -> float:
    """Seconds to copy `size` bytes. `kind`: pinned, pageable (either way), peer, or device."""
    if kind == "device":  # reads and writes the card's own memory
        moved = 2 * size / (sheet.bandwidth * sheet.efficiency["memory"])
        return max(moved, sheet.floor)
    if kind == "peer":
        return sheet.peer["latency"] + size / sheet.peer["bandwidth"]
    return sheet.link["latency"] + size / sheet.link[kind]
