"""`python -m cudasim.timing`: the data sheets as JSON, with their hosts and two modelled times."""

import json
from dataclasses import asdict
from typing import Any

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import Work, copy_seconds, kernel_seconds
from cudasim.timing.sheets import find_sheet, host_sheet, sheet_names

SIZE = 4096  # of the matrices whose product is timed
PRODUCT = Work("matmul", 2.0 * SIZE**3, 3 * 4.0 * SIZE**2, shape=(1, SIZE, SIZE, SIZE))


def described(name: str) -> dict[str, Any]:
    """The sheet of the card called `name`, its host, its memory in bytes, and its modelled times.

    `seconds` are those of a float32 product of two matrices of 4096 x 4096 on the card, and of a
    copy of 1 GiB from pinned memory to it.
    """
    sheet = find_sheet(name)
    seconds = {
        "product": kernel_seconds(PRODUCT, sheet),
        "copy": copy_seconds(2**30, sheet, "pinned"),
    }
    more = {"host": asdict(host_sheet(sheet)), "memory": CARDS[name].memory, "seconds": seconds}
    return asdict(sheet) | more


if __name__ == "__main__":
    cards = [described(name) for name in sheet_names()]
    print(json.dumps({"cards": cards}))
