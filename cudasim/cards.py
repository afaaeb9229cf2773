"""The cards that can be simulated: facts from data sheets, each with its source."""

from dataclasses import dataclass

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Card:
    """What a simulated GPU says of itself.

    `memory` is in bytes, `capability` is CUDA's (major, minor), `processors` counts
    streaming multiprocessors. `cache` is that of the second level, in bytes. `source` is where
    the figures are printed; caches are those of NVIDIA's architecture whitepapers (Turing,
    Volta, Ampere, Hopper).
    """

    name: str
    memory: int
    capability: tuple[int, int]
    processors: int
    cache: int
    source: str


CARDS = {
    card.name: card
    for card in (
        Card(
            "T4",
            16 * GIB,
            (7, 5),
            40,
            4 * MIB,
            "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/"
            "t4-tensor-core-datasheet-951643.pdf",
        ),
        Card(
            "V100",
            16 * GIB,
            (7, 0),
            80,
            6 * MIB,
            "https://images.nvidia.com/content/technologies/volta/pdf/"
            "volta-v100-datasheet-update-us-1165301-r5.pdf",
        ),
        Card(
            "A100",
            40 * GIB,
            (8, 0),
            108,
            40 * MIB,
            "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/"
            "nvidia-ampere-architecture-whitepaper.pdf",
        ),
        Card(
            "H100",
            80 * GIB,
            (9, 0),
            132,
            50 * MIB,
            "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
        ),
    )
}


def find_card(name: str) -> Card:
    """The card called `name`. Raises ValueError, naming those there are."""
    try:
        return CARDS[name]
    except KeyError:
        raise ValueError(f"card={name!r}: unknown; choose one of {', '.join(CARDS)}") from None
