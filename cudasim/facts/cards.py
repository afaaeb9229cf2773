"""The data sheets, with their hosts and two modelled times, for tables and the calculator."""

from dataclasses import asdict
from typing import Any

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import Work, copy_seconds, kernel_seconds
from cudasim.timing.sheets import find_sheet, host_sheet

SIZE = 4096  # of the float32 matrices whose product is timed, beside a pinned copy of 1 GiB
PRODUCT = Work("matmul", 2.0 * SIZE**3, 3 * 4.0 * SIZE**2, shape=(1, SIZE, SIZE, SIZE))


def described(name: str) -> dict[str, Any]:
    """The sheet of the card called `name`, its host, its memory in bytes, and modelled seconds."""
    sheet = find_sheet(name)
    product, copy = kernel_seconds(PRODUCT, sheet), copy_seconds(2**30, sheet, "pinned")
    return asdict(sheet) | {
        "host": asdict(host_sheet(sheet)),
        "memory": CARDS[name].memory,
        "seconds": {"product": product, "copy": copy},
    }
