"""Seconds from flops and bytes: the roofline model, with a floor.

The roofline is that of Williams, Waterman and Patterson, Commun. ACM 52(4), 2009. Tiles,
waves and alignment of products are from NVIDIA's Matrix Multiplication Background User's
Guide, https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/.
The book's calculator does the same in JavaScript.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from cudasim.timing.sheets import Host, Sheet

# Rows and columns of a product that one processor computes at a time, and the share of
# its peak that it then reaches: smaller tiles read each number more often.
TILES = (
    (256, 128, 1.0),
    (128, 128, 0.95),
    (128, 64, 0.8),
    (64, 64, 0.6),
    (8, 64, 0.15),
)
STEP = 256  # the least part of k for which a tile is divided between processors
# The share that is left where rows of 16-bit numbers are no multiple of 16 bytes.
UNALIGNED = 0.6
COPIES = ("pinned", "pageable", "peer", "staged", "device")


class Work(NamedTuple):
    """What one operation does on a device."""

    # matmul, convolution, attention, pointwise, reduction, gather, copy or other
    kind: str
    flops: float
    bytes: float  # read and written
    precision: str = "float32"
    kernels: int = 1  # that are launched
    shape: tuple[int, int, int, int] | None = None  # of a product: (batch, m, n, k)


def utilisation(shape: tuple[int, int, int, int], processors: int) -> float:
    """Return the share of the processors' peak that a (batch, m, n, k) product can use.

    Its tiles may stick out of it, or not fill the last wave. Where they are few, k is
    divided too.
    """
    batch, m, n, k = shape
    best = 0.0
    for rows, columns, share in TILES:
        tiles = max(1, batch * ceil(m / rows) * ceil(n / columns))
        parts = max(1, min(processors // tiles, k // STEP))
        waves = ceil(tiles * parts / processors)
        useful = batch * m * n * parts / (waves * processors * rows * columns)
        best = max(best, share * useful)
    return best


def rate(work: Work, sheet: Sheet) -> float:
    """Return the flop/s that `work` reaches on a card where memory does not limit it."""
    shares = sheet.efficiency.get(work.kind)
    if shares is None:
        return sheet.vector.get(work.precision, sheet.vector["float32"])
    precision = work.precision if work.precision in sheet.peak else "float32"
    reached = sheet.peak[precision] * shares.get(precision, shares["float32"])
    if work.shape is None:
        return reached
    _, m, n, k = work.shape
    if min(m, n) > 1:  # products with a vector are computed without tiles
        reached *= utilisation(work.shape, sheet.processors)
        if "float16" in precision and (n % 8 or k % 8):
            reached *= UNALIGNED
    return reached


def bounds(work: Work, sheet: Sheet) -> tuple[float, float]:
    """Return the seconds that computing needs, and those that memory needs."""
    computing = work.flops / rate(work, sheet) if work.flops else 0.0
    return computing, work.bytes / _memory_rate(sheet)


def _memory_rate(sheet: Sheet) -> float:
    return sheet.bandwidth * sheet.efficiency["memory"]


@lru_cache(maxsize=10_000)  # programs repeat what they do
def kernel_seconds(work: Work, sheet: Sheet) -> float:
    """Return the seconds that `work` takes on a card, once its stream reaches it."""
    return sheet.floor * work.kernels + max(bounds(work, sheet))


def fills(work: Work, sheet: Sheet) -> bool:
    """Return whether `work` keeps a card busy, rather than end at a kernel's floor."""
    return max(bounds(work, sheet)) > sheet.floor * work.kernels


def host_seconds(work: Work, host: Host) -> float:
    """Return the seconds that `work` takes on the host, without the operation's call."""
    peak = host.peak.get(work.precision) or host.peak["float32"]
    return max(work.flops / peak, work.bytes / host.bandwidth)


def call_seconds(work: Work | None, operands: int, host: Host) -> float:
    """Return the host's seconds for a call from Python, without launches.

    `work` is None for a view or a question; `operands` counts the tensors in lists.
    """
    listed = host.operand * operands
    if work is None:
        return host.view + listed
    return host.operation + host.setup.get(work.kind, 0.0) + listed


def guard_seconds(tensors: int, needs_gradients: bool, host: Host) -> float:
    """Return the host's seconds for a call of compiled code, before its first kernel."""
    seconds = host.guards["call"] + host.guards["tensor"] * tensors
    if needs_gradients:
        seconds += host.guards["gradients"]
    return seconds


def copy_seconds(size: float, sheet: Sheet, kind: str, way: str = "in") -> float:
    """Return the seconds to copy `size` bytes.

    A `kind` of pinned or pageable is a copy from the host's memory (`way` in) or to it
    (`way` out). A copy to a card of the same kind is peer if that grants access, else
    staged; one on the card itself is device. Raises ValueError for any other.
    """
    if kind not in COPIES or way not in ("in", "out"):
        known = f"{', '.join(COPIES)}, in or out"
        raise ValueError(f"a copy {kind!r} {way!r}; there are {known}")
    if kind == "device":  # reads and writes the card's own memory
        return sheet.floor + 2 * size / _memory_rate(sheet)
    if kind in ("pinned", "pageable"):
        return sheet.link["latency"] + size / sheet.link[f"{kind}_{way}"]
    rate = sheet.peer["bandwidth"] if kind == "peer" else sheet.peer["staged"]
    return sheet.peer["latency"] + size / rate
