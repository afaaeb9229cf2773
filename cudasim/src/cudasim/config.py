"""What a simulation is asked to be. It is read before torch is, which is not imported here."""

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cudasim import startup_file
from cudasim.device.specs import CARDS, Card, find_card
from cudasim.device.types import DEFAULT, TYPES, DeviceType, find_type
from cudasim.timing.sheets import Sheet, find_sheet

# How the option of each setting is shown; its variable is CUDASIM_GPUS, CUDASIM_CARD and so on.
SETTINGS = {
    "gpus": ("N", "how many GPUs (2)"),
    "card": ("NAME", "which card (T4)"),
    "device_type": ("TYPE", f"one of {', '.join(TYPES)} (cuda)"),
    "clock": ("CLOCK", "modelled: times of the card's data sheet"),
    "races": ("ACTION", "warn or raise: look for data races"),
}
USAGE = "[--card NAME] [--device-type TYPE] [--clock CLOCK] [--races ACTION] [--force]"
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins
VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's own: which of the cards a program may see
IGNORED = "CUDASIM_IGNORED"  # the value of VISIBLE that a forced simulation found: it hides nothing
FORK = "CUDASIM_FORK"  # allow: forked processes may go on using the GPUs, which CUDA refuses

# What an error calls the number and the type: (number, type).
ARGUMENTS, VARIABLES = ("gpus", "device_type"), ("CUDASIM_GPUS", "CUDASIM_DEVICE_TYPE")
OPTIONS, LINE = ("--gpus", "--device-type"), ("GPUS", "--device-type")


@dataclass(frozen=True)
class Config:
    gpus: int
    card: object  # may yet be unknown
    type: DeviceType
    force: bool = False
    clock: str | None = None
    races: str | None = None

    def find_card(self) -> Card:
        """The card. Raises ValueError, naming those there are; under a clock, with a data sheet."""
        if _is_file(self.card) and self.type is DEFAULT:
            return card_of(find_sheet(self.card))
        card = find_card(self.card, self.type)
        if self.clock is not None:
            find_sheet(self.card)
        return card

    def settings(self) -> dict[str, str | None]:
        values = str(self.gpus), str(self.card), self.type.name, self.clock, self.races
        return dict(zip(SETTINGS, values, strict=True))


def _is_file(card: object) -> bool:
    return isinstance(card, str) and card.endswith(".json")


def card_of(sheet: Sheet) -> Card:
    """The card that a sheet is of. Raises ValueError if the sheet does not say enough of it."""
    if sheet.name in CARDS:
        return CARDS[sheet.name]
    about = sheet.provenance
    try:
        facts = about["memory"], tuple(about["capability"]), sheet.processors
        return Card(sheet.name, *facts, about["cache"], about["hardware"])
    except KeyError as missing:
        words = f"the provenance in its file says no {missing.args[0]}"
        raise ValueError(f"card={sheet.name!r}: {words}; add it") from None


def parse(
    gpus: object = None,
    card: object = None,
    device_type: object = DEFAULT.name,
    force: bool = False,
    source: tuple[str, str] = ARGUMENTS,
    clock: object = None,
    races: object = None,
) -> Config:
    """What the values ask for; None is what is usual. Raises ValueError for what makes no sense.
    From elsewhere than a program (`source`) numbers come as text."""
    if source is not ARGUMENTS:
        device_type = DEFAULT.name if device_type is None else device_type
        if isinstance(gpus, str) and gpus.isascii() and gpus.isdigit():
            gpus = int(gpus)
    type = find_type(device_type, source[1])
    if clock not in (None, "modelled"):
        words = "unknown; choose 'modelled', or none for the machine's own"
        raise ValueError(f"clock={clock!r}: {words}")
    if _is_file(card):  # programs that are started are elsewhere
        card = str(Path(card).resolve())
    number = type.usual if gpus is None else type.check_number(gpus, source[0])
    races = None if races is None else check_races(races)
    return Config(
        number, type.card if card is None else card, type, force, clock, races
    )


def check_races(action: object) -> str:
    """The `action` at a race. Raises ValueError for one that is unknown."""
    if action not in ("warn", "raise"):
        raise ValueError(f"races={action!r}: unknown; choose 'warn' or 'raise'")
    return action


def add_options(parser: argparse.ArgumentParser, but: str = "") -> None:
    """Add the options of a command that simulates; `but` is a setting that is no option there."""
    for name, (metavar, about) in SETTINGS.items():
        if name != but:
            parser.add_argument(_option(name), metavar=metavar, help=about)
    parser.add_argument("--force", action="store_true", help="even where real GPUs are")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def from_options(
    options: argparse.Namespace, source: tuple[str, str] = OPTIONS
) -> Config:
    asked = {name: getattr(options, name) for name in (*SETTINGS, "force")}
    return parse(**asked, source=source)


def to_options(wanted: Config) -> list[str]:
    given = {_option(name): value for name, value in wanted.settings().items() if value}
    if wanted.type is DEFAULT:
        del given["--device-type"]
    return [*chain.from_iterable(given.items()), *["--force"] * wanted.force]


def _variable(name: str) -> str:
    return f"CUDASIM_{name.upper()}"


def setting(name: str) -> str | None:
    return os.environ.get(_variable(name), "").strip() or None


def from_environment() -> Config | None:
    """What the variables ask for, None without a number. Raises ValueError as `parse` does."""
    asked = {name: setting(name) for name in SETTINGS}
    if asked["gpus"] is None:
        return None
    return parse(**asked, force=os.environ.get(FORCE) == "1", source=VARIABLES)


def to_environment(wanted: Config) -> dict[str, str]:
    values = wanted.settings().items()
    said = {
        _variable(name): value or "" for name, value in values if value or setting(name)
    }
    return {**said, FORCE: str(int(wanted.force))}


def shown(uuids: Callable[[], list[str]], number: int) -> list[int]:
    """The numbers of a machine's so many cards that CUDA_VISIBLE_DEVICES shows, in its order:
    all where it is not set, or has the value that a forced simulation found and ignored. An entry
    is an index, or the beginning of one card's identity (`GPU-...`), of which `uuids` returns all.
    The list ends at the first entry that is neither; one that names a card twice leaves none.
    Sources: PyTorch's own reading (torch/cuda/__init__.py, `_parse_visible_devices`),
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html"""
    visible, found = os.environ.get(VISIBLE), []
    if visible is None or visible == os.environ.get(IGNORED):
        return list(range(number))
    by_name = visible.lstrip().startswith("GPU-")
    for entry in map(str.strip, visible.split(",")):
        if by_name:
            named = [
                index for index, uuid in enumerate(uuids()) if uuid.startswith(entry)
            ]
        else:  # as C's strtoul has it: what follows the digits is not read
            digits = re.match(r"\+?\d+", entry, re.ASCII)
            named = [int(digits[0])] if digits and int(digits[0]) < number else []
        if len(named) != 1:
            break
        if named[0] in found:
            return []
        found += named
    return found


def forks() -> bool:
    """Whether a forked process may use its parent's GPUs. Raises ValueError for other values."""
    value = setting("fork")
    if value not in (None, "allow"):
        raise ValueError(f"{FORK}={value!r}: unknown; set it to 'allow', or not at all")
    return value is not None


def quiet() -> bool:  # so is what a simulation started: who started it has said so
    return os.environ.get(QUIET) == "1"


def for_children(wanted: Config, inherited: bool = False) -> dict[str, str]:
    """The variables by which a child process gets the same GPUs. `inherited`: so did this one."""
    variables = {**to_environment(wanted), QUIET: "1"}
    if wanted.force and not inherited and VISIBLE in os.environ:
        variables[IGNORED] = os.environ[VISIBLE]
    folder = str(Path(__file__).resolve().with_name("inherit"))
    path = os.environ.get("PYTHONPATH", "")
    if not startup_file.path().is_file() and folder not in path.split(os.pathsep):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, path]))
    return variables
