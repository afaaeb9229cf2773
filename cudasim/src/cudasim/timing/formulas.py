"""Seconds from flops and bytes: the roofline model, with a floor. Sources. Roofline: Williams,
Waterman, Patterson, Commun. ACM 52(4), 2009. Tiles, waves and alignment of products: NVIDIA, Matrix
Multiplication Background User's Guide,
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/. The book's
calculator does the same in JavaScript."""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from cudasim.timing.sheets import Host, Sheet

# Rows and columns of a product that one processor computes at a time, and the share of its
# peak that it then reaches: smaller tiles read each number more often.
TILES = (
    (256, 128, 1.0),
    (128, 128, 0.95),
    (128, 64, 0.8),
    (64, 64, 0.6),
    (8, 64, 0.15),
)
STEP = 256  # the least part of k for which a tile is divided between processors
UNALIGNED = 0.6  # share left where rows of 16-bit numbers are no multiple of 16 bytes
COPIES = ("pinned", "pageable", "peer", "staged", "device")


class Work(NamedTuple):
    """What one operation does on a device. `kind` is one of matmul, convolution, attention,
    pointwise, reduction, gather, copy, other. `flops` and `bytes` (read and written) are totals;
    `kernels` is how many are launched. `shape` is (batch, m, n, k) of a product."""

    kind: str
    flops: float
    bytes: float
    precision: str = "float32"
    kernels: int = 1
    shape: tuple[int, int, int, int] | None = None


def utilisation(shape: tuple[int, int, int, int], processors: int) -> float:
    """The share of the processors' peak, up to 1, that a (batch, m, n, k) product can use: its
    tiles may stick out of it, or not fill the last wave; where they are few, k is divided too."""
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
    """The flop/s that `work` reaches on a card where memory does not hold it back."""
    shares = sheet.efficiency.get(work.kind)
    if shares is None:
        return sheet.vector.get(work.precision, sheet.vector["float32"])
    precision = work.precision if work.precision in sheet.peak else "float32"
    reached = sheet.peak[precision] * shares.get(precision, shares["float32"])
    if (
        work.shape and min(work.shape[1:3]) > 1
    ):  # with a vector it is done without tiles
        reached *= utilisation(work.shape, sheet.processors)
        if "float16" in precision and (work.shape[2] % 8 or work.shape[3] % 8):
            reached *= UNALIGNED
    return reached


def bounds(work: Work, sheet: Sheet) -> tuple[float, float]:
    """(seconds that computing needs, seconds that memory needs) for `work` on a card."""
    computing = work.flops / rate(work, sheet) if work.flops else 0.0
    return computing, work.bytes / (sheet.bandwidth * sheet.efficiency["memory"])


@lru_cache(maxsize=10_000)  # programs repeat what they do
def kernel_seconds(work: Work, sheet: Sheet) -> float:
    """Seconds that `work` takes on a card, once its stream has come to it."""
    return sheet.floor * work.kernels + max(bounds(work, sheet))


def fills(work: Work, sheet: Sheet) -> bool:
    """True for work that keeps a card busy, false for what is over at the floor of a kernel."""
    return max(bounds(work, sheet)) > sheet.floor * work.kernels


def host_seconds(work: Work, host: Host) -> float:
    """Seconds that `work` takes on the host, without the call of the operation."""
    peak = host.peak.get(work.precision) or host.peak["float32"]
    return max(work.flops / peak, work.bytes / host.bandwidth)


def call_seconds(work: Work | None, operands: int, host: Host) -> float:
    """Seconds of the host for a call from Python, without launches. `work` is None for a view or a
    question; `operands` are the tensors in lists."""
    listed = host.operand * operands
    if work is None:
        return host.view + listed
    return host.operation + host.setup.get(work.kind, 0.0) + listed


def copy_seconds(size: float, sheet: Sheet, kind: str, way: str = "in") -> float:
    """Seconds to copy `size` bytes. `kind` is pinned or pageable, for a copy from (`way` in) or to
    (`way` out) the host's memory; peer, to a like card that grants access; staged, to one that does
    not; or device, on the card itself. Raises ValueError for another."""
    if kind not in COPIES or way not in ("in", "out"):
        raise ValueError(
            f"a copy {kind!r} {way!r}; there are {', '.join(COPIES)}, in or out"
        )
    if kind == "device":  # reads and writes the card's own memory
        return sheet.floor + 2 * size / (sheet.bandwidth * sheet.efficiency["memory"])
    if kind in ("pinned", "pageable"):
        return sheet.link["latency"] + size / sheet.link[f"{kind}_{way}"]
    return (
        sheet.peer["latency"]
        + size / sheet.peer["bandwidth" if kind == "peer" else kind]
    )
