"""The cards that can be simulated: facts from data sheets, each with its source."""

from dataclasses import dataclass

from cudasim.device.types import DEFAULT, TYPES, DeviceType

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Card:
    """What a simulated GPU says of itself. Sizes are in bytes."""

    name: str
    memory: int  # that programs have, as torch.cuda.get_device_properties was seen to print it
    capability: tuple[int, int] | None  # CUDA's (major, minor)
    processors: int  # NVIDIA's streaming multiprocessors, or Apple's GPU cores
    cache: int | None  # of the second level, from NVIDIA's whitepapers of the architectures
    source: str  # where the figures are printed
    type: DeviceType = DEFAULT
    board: int = 0  # what nvidia-smi shows: the driver and the check of errors (ECC) keep some


CARDS = {card.name: card for card in (
    Card("T4", 14912 * MIB, (7, 5), 40, 4 * MIB, "https://www.nvidia.com/content/dam/en-zz/Solutions/"
         "Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf", board=15360 * MIB),
    Card("V100", 16160 * MIB, (7, 0), 80, 6 * MIB, "https://images.nvidia.com/content/technologies/"
         "volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf", board=16384 * MIB),
    Card("TITAN RTX", 24220 * MIB, (7, 5), 72, 6 * MIB, "https://www.nvidia.com/content/PDF/"
         "nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf", board=24576 * MIB),
    Card("A100", 40536 * MIB, (8, 0), 108, 40 * MIB, "https://images.nvidia.com/aem-dam/en-zz/"
         "Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf", board=40960 * MIB),
    Card("H100", 81089 * MIB, (9, 0), 132, 50 * MIB, "https://resources.nvidia.com/"
         "en-us-tensor-core/nvidia-tensor-core-gpu-datasheet", board=81559 * MIB),
    Card("H200", 143156 * MIB, (9, 0), 132, 50 * MIB,
         "https://www.nvidia.com/en-us/data-center/h200/", board=143771 * MIB),
    Card("RTX 4090", 24217 * MIB, (8, 9), 128, 72 * MIB, "https://images.nvidia.com/aem-dam/Solutions/"
         "Data-Center/l4/nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf", board=24564 * MIB),
    Card("M1", 16 * GIB, None, 8, None, "https://support.apple.com/en-us/111883", TYPES["mps"]),
)}  # fmt: skip


def find_card(name: object, type: DeviceType) -> Card:
    card = CARDS.get(name) if isinstance(name, str) else None
    if card is None or card.type is not type:
        known = f"is of type {card.type.name}, not {type.name}" if card else "unknown"
        names = ", ".join(each.name for each in CARDS.values() if each.type is type)
        raise ValueError(f"card={name!r}: {known}; choose one of {names}")
    return card
