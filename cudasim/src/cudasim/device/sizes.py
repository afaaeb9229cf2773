"""The sizes by which CUDA's caching allocator decides, in bytes.

The names in brackets are those of c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11 to
2.13. Addresses are the simulation's own.
"""

MIB = 2**20
BLOCK = 512  # every request is rounded up to a multiple of this (kMinBlockSize)
SMALL = MIB  # the largest request that the pool of small blocks serves (kSmallSize)
SMALL_SEGMENT = 2 * MIB  # taken from the driver for small requests (kSmallBuffer)
LARGE_SEGMENT = 20 * MIB  # taken for larger ones, below the next (kLargeBuffer)
HUGE = 10 * MIB  # from here on a request has a segment of its own (kMinLargeAlloc)
ROUNDING = 2 * MIB  # such a segment has a multiple of this (kRoundLarge)
FIRST = 0x7F0000000000  # the lowest address of the first GPU; each has a tebibyte
INTERVALS = (
    16  # between powers of 2, from 1 MiB to 64 GiB (kRoundUpPowerOfTwoIntervals)
)


def round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
