"""The data sheets, with their hosts and two modelled times, for tables and the calculator."""

from dataclasses import asdict
from typing import Any

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import Work, copy_seconds, kernel_seconds
from cudasim.timing.sheets import find_sheet, host_sheet

# The two modelled times: of a product of float32 matrices, and of a pinned copy.
SIZE = 4096
FLOPS = 2.0 * SIZE**3
BYTES = 3 * 4.0 * SIZE**2
PRODUCT = Work("matmul", FLOPS, BYTES, shape=(1, SIZE, SIZE, SIZE))
COPIED_BYTES = 2**30


def described(name: str) -> dict[str, Any]:
    """Return the sheet of a card, with its host, its memory in bytes, and modelled seconds."""
    sheet = find_sheet(name)
    description = asdict(sheet)
    description["host"] = asdict(host_sheet(sheet))
    description["memory"] = CARDS[name].memory
    description["seconds"] = {
        "product": kernel_seconds(PRODUCT, sheet),
        "copy": copy_seconds(COPIED_BYTES, sheet, "pinned"),
    }
    return description
