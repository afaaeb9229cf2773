"""What a simulation is asked to be, by arguments, options or environment variables.

Nothing here imports torch: it is read before torch is.
"""

import argparse
import os
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from cudasim import startup_file
from cudasim.device.specs import CARDS, Card, find_card
from cudasim.device.types import DEFAULT, TYPES, DeviceType, find_type
from cudasim.timing.sheets import Sheet, find_sheet

GPUS = "CUDASIM_GPUS"  # how many; the one that asks for a simulation
CARD = "CUDASIM_CARD"  # which card; the type's usual one if it is not set
TYPE = "CUDASIM_DEVICE_TYPE"  # what PyTorch calls them, cuda if it is not set
CLOCK = "CUDASIM_CLOCK"  # modelled, or not set: times are the machine's own
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins
VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's own: which of the cards a program may see
SEEN = "CUDASIM_SEEN"  # what VISIBLE said where the simulation began
NUMBERS = "CUDASIM_CARD_NUMBERS"  # the numbers of the host's cards that a program sees
ALL = "all"  # SEEN where VISIBLE was not set

# What an error calls the number and the type: (number, type).
ARGUMENTS, VARIABLES = ("gpus", "device_type"), (GPUS, TYPE)
OPTIONS, LINE = ("--gpus", "--device-type"), ("GPUS", "--device-type")

FILE = ".json"  # how the path of a card's file ends
MODELLED = "modelled"  # the one clock besides the machine's

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """So many GPUs of one type; the `card` may yet be unknown."""

    gpus: int
    card: object
    type: DeviceType
    force: bool = False
    clock: str | None = None

    def find_card(self) -> Card:
        """The card. Raises ValueError, naming those there are.

        Modelled time needs one with a data sheet; else those that have one are named.
        """
        if self._calibrated():
            return card_of(find_sheet(self.card))
        card = find_card(self.card, self.type)
        if self.clock is not None:
            find_sheet(card.name)
        return card

    def find_sheet(self) -> Sheet:
        """The data sheet of the card. Raises ValueError, naming those there are."""
        return find_sheet(self.card if self._calibrated() else self.find_card().name)

    def _calibrated(self) -> bool:
        """True for the path of the file of a card that was measured."""
        named = isinstance(self.card, str) and self.card.endswith(FILE)
        return named and self.type is DEFAULT


def card_of(sheet: Sheet) -> Card:
    """The card that a sheet is of. Raises ValueError if the sheet does not say enough of it."""
    about = sheet.provenance
    if sheet.name in CARDS:
        return CARDS[sheet.name]
    if not {"memory", "capability", "cache", "hardware"} <= about.keys():
        raise ValueError(f"card={sheet.name!r}: its file does not say what it is; calibrate again")
    capability = tuple(about["capability"])
    facts = (about["memory"], capability, sheet.processors, about["cache"], about["hardware"])
    return Card(sheet.name, *facts)


def parse(
    gpus: object = None,
    card: object = None,
    device_type: object = DEFAULT.name,
    force: bool = False,
    source: tuple[str, str] = ARGUMENTS,
    clock: object = None,
) -> Config:
    """What the values ask for; None is the usual number or card, and the machine's own clock.

    From elsewhere than a program (`source`) numbers come as text, and None is the usual type,
    too. Raises ValueError for a number that makes no sense and for an unknown type or
    clock.
    """
    if source is not ARGUMENTS:
        device_type = DEFAULT.name if device_type is None else device_type
        if isinstance(gpus, str) and gpus.isascii() and gpus.isdigit():
            gpus = int(gpus)
    type = find_type(device_type, source[1])
    if clock not in (None, MODELLED):
        raise ValueError(
            f"clock={clock!r}: unknown; choose {MODELLED!r}, or none for the machine's own"
        )
    if isinstance(card, str) and card.endswith(FILE):  # programs that are started are elsewhere
        card = str(Path(card).resolve())
    number = type.usual if gpus is None else type.check_number(gpus, source[0])
    return Config(number, type.card if card is None else card, type, force, clock)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the card, the device type and the clock, which all commands have."""
    parser.add_argument("--card", metavar="NAME", help="which card (T4)")
    types = ", ".join(TYPES)
    parser.add_argument("--device-type", metavar="TYPE", help=f"one of {types} (cuda)")
    parser.add_argument("--clock", metavar="CLOCK", help="modelled: times of the card's data sheet")


def setting(name: str) -> str | None:
    """What the variable `name` says; None if it is not set, or empty."""
    return os.environ.get(name, "").strip() or None


def allocator_settings() -> str:
    """What the environment says of PyTorch's allocator, under its new name or the older one."""
    return setting("PYTORCH_ALLOC_CONF") or setting("PYTORCH_CUDA_ALLOC_CONF") or ""


def from_environment() -> Config | None:
    """What the environment asks for; None if nothing. Raises ValueError as `parse` does.

    A program that a simulation started with another CUDA_VISIBLE_DEVICES than its own gets as
    many GPUs as that leaves; where it leaves none, nothing is asked for.
    """
    number = setting(GPUS)
    if number is None:
        return None
    forced = os.environ.get(FORCE) == "1"
    wanted = parse(number, setting(CARD), setting(TYPE), forced, VARIABLES, setting(CLOCK))
    seen, visible = os.environ.get(SEEN), os.environ.get(VISIBLE)
    if seen is None or wanted.type is not DEFAULT or seen == (ALL if visible is None else visible):
        return wanted
    gpus = wanted.gpus if visible is None else visible_of(visible, wanted.gpus)
    return replace(wanted, gpus=gpus) if gpus else None


def visible_of(visible: str, gpus: int) -> int:
    """How many of so many GPUs a value of CUDA_VISIBLE_DEVICES leaves, counted as CUDA does.

    The list ends at the first entry that is no index of a GPU, and one that names a GPU twice
    leaves none. Identities (`GPU-...`) are not read. Sources: PyTorch's own count
    (`_parse_visible_devices` of torch/cuda/__init__.py), and
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    indices = [str(index) for index in range(gpus)]
    found = list(takewhile(indices.__contains__, map(str.strip, visible.split(","))))
    return len(found) if len(set(found)) == len(found) else 0


def cards(gpus: int) -> list[int]:
    """The numbers of the host's cards that this program sees as its so many GPUs.

    They are not 0, 1, ... where it was started with a CUDA_VISIBLE_DEVICES of its own.
    """
    seen, visible = os.environ.get(SEEN), os.environ.get(VISIBLE)
    changed = seen is not None and visible is not None and seen != visible
    listed = (visible if changed else setting(NUMBERS)) or ""
    found = [int(number) for number in listed.split(",") if number.strip().isdigit()][:gpus]
    return found if len(found) == gpus else list(range(gpus))


def physical(index: int) -> int:
    """The number of the host's card that this program, now simulating, sees as GPU `index`."""
    return cards(index + 1)[index]


def to_environment(wanted: Config) -> dict[str, str]:
    """The variables with which `from_environment` finds what is `wanted`."""
    variables = {GPUS: str(wanted.gpus), CARD: str(wanted.card), TYPE: wanted.type.name}
    if wanted.clock is not None or setting(CLOCK) is not None:
        variables[CLOCK] = wanted.clock or ""
    return {**variables, FORCE: "1" if wanted.force else "0"}


def quiet() -> bool:
    """True in what a simulation started: who started it has said that it is one."""
    return os.environ.get(QUIET) == "1"


def for_children(wanted: Config) -> dict[str, str]:
    """The variables with which a program that is started gets the same GPUs.

    Where `cudasim install-startup` was not run, Python finds it by a `sitecustomize`.
    """
    variables = {
        **to_environment(wanted),
        QUIET: "1",
        NUMBERS: ",".join(map(str, cards(wanted.gpus))),
        SEEN: os.environ.get(VISIBLE, ALL),
    }
    if not startup_file.is_installed():
        folder = str(_PACKAGE / "inherit")
        path = os.environ.get("PYTHONPATH", "")
        if folder not in path.split(os.pathsep):
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, path]))
    return variables
