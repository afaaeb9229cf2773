"""The cards that can be simulated: facts from data sheets, each with its source."""

from dataclasses import dataclass

from cudasim.device.types import DEFAULT, TYPES, DeviceType

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Card:
    """What a simulated GPU says of itself.

    `memory` is what programs have of it, in bytes, as `torch.cuda.get_device_properties` of such a
    card was seen to print it; `board` is what `nvidia-smi` shows. The driver and the check of
    errors (ECC) keep the rest. An Apple chip shares it with the CPU. `processors` counts NVIDIA's
    streaming multiprocessors, Apple's GPU cores or Intel's Xe-cores. `source` is where the
    figures are printed. NVIDIA's only: `capability` is CUDA's (major, minor), `cache` is that
    of the second level in bytes, from the architecture whitepapers (Turing, Volta, Ampere,
    Hopper, Ada).
    """

    name: str
    memory: int
    capability: tuple[int, int] | None
    processors: int
    cache: int | None
    source: str
    type: DeviceType = DEFAULT
    board: int = 0


# NVIDIA's: name, MiB of memory and of the board, processors, capability, MiB of cache, source.
_NVIDIA = (
    ("T4", 14912, 15360, 40, (7, 5), 4, "www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/"
     "tesla-t4/t4-tensor-core-datasheet-951643.pdf"),
    ("V100", 16160, 16384, 80, (7, 0), 6, "images.nvidia.com/content/technologies/volta/pdf/"
     "volta-v100-datasheet-update-us-1165301-r5.pdf"),
    ("TITAN RTX", 24220, 24576, 72, (7, 5), 6, "www.nvidia.com/content/PDF/"
     "nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"),
    ("A100", 40536, 40960, 108, (8, 0), 40, "images.nvidia.com/aem-dam/en-zz/Solutions/data-center/"
     "nvidia-ampere-architecture-whitepaper.pdf"),
    ("H100", 81089, 81559, 132, (9, 0), 50, "resources.nvidia.com/en-us-tensor-core/"
     "nvidia-tensor-core-gpu-datasheet"),
    ("H200", 143156, 143771, 132, (9, 0), 50, "www.nvidia.com/en-us/data-center/h200/"),
    ("RTX 4090", 24217, 24564, 128, (8, 9), 72, "images.nvidia.com/aem-dam/Solutions/Data-Center/"
     "l4/nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf"),
)  # fmt: skip

CARDS = {
    name: Card(
        name,
        memory * MIB,
        capability,
        processors,
        cache * MIB,
        f"https://{source}",
        DEFAULT,
        board * MIB,
    )
    for name, memory, board, processors, capability, cache, source in _NVIDIA
} | {
    "M1": Card(
        "M1", 16 * GIB, None, 8, None, "https://support.apple.com/en-us/111883", TYPES["mps"]
    )
}


def find_card(name: object, type: DeviceType) -> Card:
    """The card of that `type` called `name`. Raises ValueError, naming those there are."""
    card = CARDS.get(name) if isinstance(name, str) else None
    if card is None or card.type is not type:
        known = f"is of type {card.type.name}, not {type.name}" if card else "unknown"
        names = ", ".join(each.name for each in CARDS.values() if each.type is type)
        raise ValueError(f"card={name!r}: {known}; choose one of {names}")
    return card
