"""The data sheets, with their hosts and two modelled times, for tables and the calculator."""

from dataclasses import asdict
from typing import Any

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import Work, copy_seconds, kernel_seconds
from cudasim.timing.sheets import find_sheet, host_sheet

# A product of float32 matrices is timed, and a pinned copy.
SIZE = 4096
FLOPS, BYTES = 2.0 * SIZE**3, 3 * 4.0 * SIZE**2
PRODUCT = Work("matmul", FLOPS, BYTES, shape=(1, SIZE, SIZE, SIZE))
COPY = 2**30  # bytes


def described(name: str) -> dict[str, Any]:
    """Return the sheet of a card, with its host, its memory in bytes, and modelled seconds."""
    sheet = find_sheet(name)
    seconds = {
        "product": kernel_seconds(PRODUCT, sheet),
        "copy": copy_seconds(COPY, sheet, "pinned"),
    }
    return asdict(sheet) | {
        "host": asdict(host_sheet(sheet)),
        "memory": CARDS[name].memory,
        "seconds": seconds,
    }
