"""What a simulation is asked to be, by arguments, options or environment variables.

Nothing here imports torch: it is read before torch is.
"""

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cudasim import startup_file
from cudasim.device.specs import CARDS, Card, find_card
from cudasim.device.types import DEFAULT, TYPES, DeviceType, find_type
from cudasim.timing.sheets import Sheet, find_sheet

GPUS = "CUDASIM_GPUS"  # how many; the one that asks for a simulation
CARD = "CUDASIM_CARD"  # which card; the type's usual one if it is not set
TYPE = "CUDASIM_DEVICE_TYPE"  # what PyTorch calls them, cuda if it is not set
CLOCK = "CUDASIM_CLOCK"  # modelled, or not set: times are the machine's own
RACES = "CUDASIM_RACES"  # warn, raise, or not set: nobody looks for races
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins
VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's own: which of the cards a program may see
IGNORED = "CUDASIM_IGNORED"  # the value of VISIBLE that a forced simulation found: it hides nothing
FORK = "CUDASIM_FORK"  # allow: forked processes may go on using the GPUs, which CUDA refuses
ALLOW = "allow"

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
    races: str | None = None

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
    races: object = None,
) -> Config:
    """What the values ask for; None is the usual number or card, and the machine's own clock.

    From elsewhere than a program (`source`) numbers come as text, and None is the usual type,
    too. Raises ValueError for a number that makes no sense and for an unknown type, clock or
    action at races.
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
    if races is not None:
        check_races(races)
    return Config(number, type.card if card is None else card, type, force, clock, races)


def check_races(action: object) -> str:
    """What is to become of a race. Raises ValueError for what is none of two."""
    if action not in ("warn", "raise"):
        raise ValueError(f"races={action!r}: unknown; choose 'warn' or 'raise'")
    return action


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all commands have; --gpus each adds itself."""
    for option, metavar, about in (
        ("--card", "NAME", "which card (T4)"),
        ("--device-type", "TYPE", f"one of {', '.join(TYPES)} (cuda)"),
        ("--clock", "CLOCK", "modelled: times of the card's data sheet"),
        ("--races", "ACTION", "warn or raise: look for data races"),
    ):
        parser.add_argument(option, metavar=metavar, help=about)
    parser.add_argument("--force", action="store_true", help="even where real GPUs are")


def from_options(options: argparse.Namespace, source: tuple[str, str] = OPTIONS) -> Config:
    """What the options of a command ask for. Raises ValueError as `parse` does."""
    asked = options.gpus, options.card, options.device_type, options.force
    return parse(*asked, source, options.clock, options.races)


def to_options(wanted: Config) -> list[str]:
    """The options with which a command is asked for what is `wanted`."""
    words = ["--gpus", str(wanted.gpus), "--card", str(wanted.card)]
    words += ["--device-type", wanted.type.name] if wanted.type is not DEFAULT else []
    words += ["--clock", wanted.clock] if wanted.clock is not None else []
    words += ["--races", wanted.races] if wanted.races is not None else []
    words += ["--force"] if wanted.force else []
    return words


def setting(name: str) -> str | None:
    """What the variable `name` says; None if it is not set, or empty."""
    return os.environ.get(name, "").strip() or None


def allocator_settings() -> str:
    """What the environment says of PyTorch's allocator, under its new name or the older one."""
    return setting("PYTORCH_ALLOC_CONF") or setting("PYTORCH_CUDA_ALLOC_CONF") or ""


def from_environment() -> Config | None:
    """What the environment asks for; None if nothing. Raises ValueError as `parse` does."""
    number = setting(GPUS)
    if number is None:
        return None
    forced = os.environ.get(FORCE) == "1"
    return parse(
        number, setting(CARD), setting(TYPE), forced, VARIABLES, setting(CLOCK), setting(RACES)
    )


def shown(uuids: Callable[[], list[str]], number: int) -> list[int]:
    """The numbers of a machine's so many cards that CUDA_VISIBLE_DEVICES shows, in its order.

    `uuids` returns the cards' identities (`GPU-...`), in the order of their numbers. All cards
    where the variable is not set, or has the value that a forced simulation found and ignored.
    """
    text = os.environ.get(VISIBLE)
    if text is None or text == os.environ.get(IGNORED):
        return list(range(number))
    return visible_of(text, uuids())


def visible_of(visible: str, uuids: list[str]) -> list[int]:
    """The numbers of cards with these `uuids` that a value of CUDA_VISIBLE_DEVICES leaves.

    An entry is an index, or the beginning of one card's identity. The list ends at the first
    entry that is neither, and one that names a card twice leaves none. Sources: PyTorch's own
    reading (`_parse_visible_devices` of torch/cuda/__init__.py), and
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    found: list[int] = []
    by_name = visible.lstrip().startswith("GPU-")
    for entry in map(str.strip, visible.split(",")):
        if by_name:
            named = [number for number, uuid in enumerate(uuids) if uuid.startswith(entry)]
        else:
            # As C's strtoul has it: what follows the digits is not read.
            digits = re.match(r"\+?\d+", entry, re.ASCII)
            named = [int(digits[0])] if digits and int(digits[0]) < len(uuids) else []
        if len(named) != 1:
            break
        if named[0] in found:
            return []
        found += named
    return found


def forks() -> bool:
    """True if a forked process may use GPUs that its parent has used.

    Raises ValueError for a value of CUDASIM_FORK that says nothing.
    """
    value = setting(FORK)
    if value not in (None, ALLOW):
        raise ValueError(f"{FORK}={value!r}: unknown; set it to {ALLOW!r}, or not at all")
    return value == ALLOW


def to_environment(wanted: Config) -> dict[str, str]:
    """The variables with which `from_environment` finds what is `wanted`."""
    variables = {GPUS: str(wanted.gpus), CARD: str(wanted.card), TYPE: wanted.type.name}
    if wanted.clock is not None or setting(CLOCK) is not None:
        variables[CLOCK] = wanted.clock or ""
    if wanted.races is not None or setting(RACES) is not None:
        variables[RACES] = wanted.races or ""
    return {**variables, FORCE: "1" if wanted.force else "0"}


def quiet() -> bool:
    """True in what a simulation started: who started it has said that it is one."""
    return os.environ.get(QUIET) == "1"


def for_children(wanted: Config, inherited: bool = False) -> dict[str, str]:
    """The variables with which a program that is started gets the same GPUs.

    `inherited`: this one was itself started so. Where `cudasim install-startup` was not run,
    they let Python find the package by a `sitecustomize`.
    """
    variables = {**to_environment(wanted), QUIET: "1"}
    if wanted.force and not inherited and VISIBLE in os.environ:
        variables[IGNORED] = os.environ[VISIBLE]
    if not startup_file.is_installed():
        folder = str(_PACKAGE / "inherit")
        path = os.environ.get("PYTHONPATH", "")
        if folder not in path.split(os.pathsep):
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, path]))
    return variables
