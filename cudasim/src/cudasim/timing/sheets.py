"""Data sheets: what a card, and the host beside it, can do in a second, each with its sources."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "cards"


@dataclass(frozen=True)
class Sheet:
    """The figures of one card, in SI units: flop/s, bytes/s, seconds, bytes.

    `peak` is by precision (`float32`, `tf32`, `float16`, ...), dense, with tensor cores where the
    card uses them; `efficiency` is the share of a peak that work of a kind reaches; `copies` is
    by kind of memory and direction. `provenance` says where the figures are from, and whether the
    model was validated against the card.
    """

    name: str
    peak: dict[str, float]
    vector: dict[str, float]  # without tensor cores: what pointwise work can reach
    bandwidth: float
    processors: int
    launch: float  # of the host, for one kernel
    floor: float  # the least time of a kernel
    wait: float  # from the end of a kernel to the host's next line
    efficiency: dict[str, float]
    link: dict[str, float]  # pinned, pageable in bytes/s; latency in seconds
    peer: dict[str, float]
    provenance: dict = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Host:
    """The machine beside the card, in SI units."""

    name: str
    operation: float  # seconds for PyTorch to be called and to return, without the work
    peak: dict[str, float]
    bandwidth: float
    sources: dict[str, str] = field(default_factory=dict)


@cache
def find_sheet(name: str) -> Sheet:
    """The sheet of the card called `name`. Raises ValueError, naming those there are."""
    for path in sorted(FOLDER.glob("*.json")):
        read = json.loads(path.read_text(encoding="utf-8"))
        if read["name"] == name and path.stem != "host":
            return Sheet(**read)
    raise ValueError(f"card={name!r}: no data sheet; there are {', '.join(sheet_names())}")


@cache
def sheet_names() -> list[str]:
    """The names of the cards that have a sheet."""
    paths = sorted(FOLDER.glob("*.json"))
    return [json.loads(path.read_text())["name"] for path in paths if path.stem != "host"]


@cache
def host_sheet() -> Host:
    """The sheet of the host that all cards are modelled beside."""
    return Host(**json.loads((FOLDER / "host.json").read_text(encoding="utf-8")))
