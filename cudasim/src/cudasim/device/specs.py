"""The cards that can be simulated: facts from data sheets, each with its source."""

import json
from dataclasses import dataclass
from pathlib import Path

from cudasim.device.types import DEFAULT, TYPES, DeviceType

# Figures of a card that may be unknown.
RATINGS = ("clock", "memory_clock", "bus_width", "power")


@dataclass(frozen=True)
class Card:
    """What a simulated GPU says about itself. Sizes are in bytes."""

    name: str
    # What programs have, as torch.cuda.get_device_properties was seen to print it.
    memory: int
    capability: tuple[int, int] | None  # CUDA's (major, minor)
    processors: int  # NVIDIA's streaming multiprocessors, or Apple's GPU cores
    # Of the second level, from NVIDIA's whitepapers on the architectures.
    cache: int | None
    source: str  # where the figures are printed
    type: DeviceType = DEFAULT
    # What nvidia-smi shows. The driver and error correction (ECC) keep some of it.
    board: int = 0
    # The highest clocks, as the runtime tells them (`cudaDevAttrClockRate`), and the width
    # of the memory's bus; 0 if unknown. `clocks_source` in `cards.json` says where they
    # are printed: two transfers per clock over the bus make the bandwidth of the sheet.
    clock: int = 0  # of the processors, in MHz
    memory_clock: int = 0  # in MHz
    bus_width: int = 0  # in bits
    power: int = 0  # the limit in watts, by the data sheet; 0 if unknown


def _card(name: str, row: dict) -> Card:
    """Return the card in a row of `cards.json`, whose sizes are in MiB."""
    capability = row["capability"]
    cache = row["cache"]
    return Card(
        name,
        memory=row["memory"] * 2**20,
        capability=None if capability is None else tuple(capability),
        processors=row["processors"],
        cache=None if cache is None else cache * 2**20,
        source=row["source"],
        type=TYPES[row["type"]],
        board=row.get("board", 0) * 2**20,
        **{name: row.get(name, 0) for name in RATINGS},
    )


def _read_cards() -> dict[str, Card]:
    path = Path(__file__).with_name("cards.json")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {name: _card(name, row) for name, row in rows.items()}


CARDS = _read_cards()


def find_card(name: object, type: DeviceType) -> Card:
    """Return the card called `name`. Raises ValueError if there is none of that `type`."""
    card = CARDS.get(name) if isinstance(name, str) else None
    if card is not None and card.type is type:
        return card
    if card is None:
        problem = "unknown"
    else:
        problem = f"is of type {card.type.name}, not {type.name}"
    names = ", ".join(card.name for card in CARDS.values() if card.type is type)
    raise ValueError(f"card={name!r}: {problem}; choose one of {names}")
