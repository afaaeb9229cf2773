"""The cards that can be simulated: facts from data sheets, each with its source."""

import json
from dataclasses import dataclass
from pathlib import Path

from cudasim.device.types import DEFAULT, TYPES, DeviceType


@dataclass(frozen=True)
class Card:
    """What a simulated GPU says of itself. Sizes are in bytes."""

    name: str
    memory: int  # that programs have, as torch.cuda.get_device_properties was seen to print it
    capability: tuple[int, int] | None  # CUDA's (major, minor)
    processors: int  # NVIDIA's streaming multiprocessors, or Apple's GPU cores
    cache: (
        int | None
    )  # of the second level, from NVIDIA's whitepapers of the architectures
    source: str  # where the figures are printed
    type: DeviceType = DEFAULT
    board: int = (
        0  # what nvidia-smi shows: the driver and the check of errors (ECC) keep some
    )


def _card(name: str, row: dict) -> Card:
    """The card that a row of `cards.json` tells of, in MiB."""
    sizes = {
        key: row[key] * 2**20 for key in ("memory", "cache", "board") if row.get(key)
    }
    capability = row["capability"] and tuple(row["capability"])
    return Card(
        name, **row | sizes | {"capability": capability, "type": TYPES[row["type"]]}
    )


_rows = json.loads(Path(__file__).with_name("cards.json").read_text(encoding="utf-8"))
CARDS = {name: _card(name, row) for name, row in _rows.items()}


def find_card(name: object, type: DeviceType) -> Card:
    """The card of that `type` called `name`. Raises ValueError, naming those there are."""
    card = CARDS.get(name) if isinstance(name, str) else None
    if card is None or card.type is not type:
        known = f"is of type {card.type.name}, not {type.name}" if card else "unknown"
        names = ", ".join(each.name for each in CARDS.values() if each.type is type)
        raise ValueError(f"card={name!r}: {known}; choose one of {names}")
    return card
