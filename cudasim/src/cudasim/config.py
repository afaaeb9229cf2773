"""The configuration of a simulation, from arguments, options or the environment.

It is read before torch is imported, so nothing here imports that.
"""

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cudasim import startup_file
from cudasim.device.specs import CARDS, RATINGS, Card, find_card
from cudasim.device.types import DEFAULT, TYPES, DeviceType, find_type
from cudasim.timing.sheets import Sheet, find_sheet

# The metavar and the help text of the option for each setting. The variables are
# CUDASIM_GPUS, CUDASIM_CARD and so on.
SETTINGS = {
    "gpus": ("N", "number of GPUs (default: 2)"),
    "card": ("NAME", "card to simulate, or path of a data sheet (default: T4)"),
    "device_type": ("TYPE", f"one of {', '.join(TYPES)} (default: cuda)"),
    "clock": ("CLOCK", "modelled: show times calculated from the card's data sheet"),
    "races": ("ACTION", "warn or raise: check for data races between streams"),
}
USAGE = "[--card NAME] [--device-type TYPE] [--clock CLOCK] [--races ACTION] [--force]"
FORCE = "CUDASIM_FORCE"  # 1: simulate even where as many real GPUs are there
FULL_TRACEBACK = "CUDASIM_FULL_TRACEBACK"  # 1: show this package's lines in tracebacks
QUIET = "CUDASIM_QUIET"  # 1: say nothing when the simulation begins
# The variables of PyTorch's allocators. libc10 2.13 takes the first that is set.
ALLOCATOR_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA's own: which of the cards a program may see
# The value of VISIBLE that a forced simulation found: that value hides nothing.
IGNORED = "CUDASIM_IGNORED"
# allow: forked processes may continue to use the GPUs, which CUDA refuses.
FORK = "CUDASIM_FORK"


class Source(NamedTuple):
    """Where settings come from: what errors call the number of GPUs and their type."""

    gpus: str
    device_type: str


ARGUMENTS = Source("gpus", "device_type")
VARIABLES = Source("CUDASIM_GPUS", "CUDASIM_DEVICE_TYPE")
OPTIONS = Source("--gpus", "--device-type")
LINE = Source("GPUS", "--device-type")  # of the magic `%cudasim`


@dataclass(frozen=True)
class Config:
    """The simulation that a program has requested."""

    gpus: int
    card: object  # may still turn out to be unknown
    type: DeviceType
    force: bool = False
    clock: str | None = None
    races: str | None = None

    def find_card(self) -> Card:
        """Return the card. Raises ValueError if it is unknown, or has no sheet for a clock."""
        if _is_file(self.card) and self.type is DEFAULT:
            return card_of(find_sheet(self.card))
        card = find_card(self.card, self.type)
        if self.clock is not None:
            find_sheet(self.card)
        return card

    def settings(self) -> dict[str, str | None]:
        """Return the value of each of SETTINGS as text."""
        return {
            "gpus": str(self.gpus),
            "card": str(self.card),
            "device_type": self.type.name,
            "clock": self.clock,
            "races": self.races,
        }


def _is_file(card: object) -> bool:
    return isinstance(card, str) and card.endswith(".json")


def card_of(sheet: Sheet) -> Card:
    """Return the card of a sheet. Raises ValueError if the sheet lacks a figure for it."""
    if sheet.name in CARDS:
        return CARDS[sheet.name]
    about = sheet.provenance
    try:
        return Card(
            sheet.name,
            memory=about["memory"],
            capability=tuple(about["capability"]),
            processors=sheet.processors,
            cache=about["cache"],
            source=about["hardware"],
            **{name: about.get(name, 0) for name in RATINGS},
        )
    except KeyError as missing:
        problem = f"the provenance in its file says no {missing.args[0]}"
        raise ValueError(f"card={sheet.name!r}: {problem}; add it") from None


def parse(
    gpus: object = None,
    card: object = None,
    device_type: object = DEFAULT.name,
    force: bool = False,
    source: Source = ARGUMENTS,
    clock: object = None,
    races: object = None,
) -> Config:
    """Return the configuration for these values. None stands for the default.

    Unless they are arguments of a function (`source`), numbers are text. Raises
    ValueError for values that make no sense.
    """
    if source is not ARGUMENTS:
        if device_type is None:
            device_type = DEFAULT.name
        if isinstance(gpus, str) and gpus.isascii() and gpus.isdigit():
            gpus = int(gpus)
    type = find_type(device_type, source.device_type)
    if clock not in (None, "modelled"):
        problem = "unknown; choose 'modelled', or none for the machine's own"
        raise ValueError(f"clock={clock!r}: {problem}")
    if card is None:
        card = type.card
    if _is_file(card):
        # Child processes may run in another folder.
        card = str(Path(card).resolve())
    number = type.usual if gpus is None else type.check_number(gpus, source.gpus)
    if races is not None:
        check_races(races)
    return Config(number, card, type, force, clock, races)


def check_races(action: object) -> str:
    """Return the `action` at a race. Raises ValueError for one that is unknown."""
    if action not in ("warn", "raise"):
        raise ValueError(f"races={action!r}: unknown; choose 'warn' or 'raise'")
    return action


# Options of commands


def add_options(parser: argparse.ArgumentParser, but: str = "") -> None:
    """Add the options of a command that simulates, all `but` one setting."""
    for name, (metavar, help) in SETTINGS.items():
        if name != but:
            parser.add_argument(_option(name), metavar=metavar, help=help)
    parser.add_argument(
        "--force",
        action="store_true",
        help="simulate even if the machine has real GPUs",
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def from_options(options: argparse.Namespace, source: Source = OPTIONS) -> Config:
    """Return the configuration for a command's options. Raises ValueError as `parse` does."""
    return parse(
        options.gpus,
        options.card,
        options.device_type,
        options.force,
        source=source,
        clock=options.clock,
        races=options.races,
    )


def to_options(wanted: Config) -> list[str]:
    """Return the options of a command for the same configuration."""
    options = []
    for name, value in wanted.settings().items():
        is_default = name == "device_type" and wanted.type is DEFAULT
        if value and not is_default:
            options += [_option(name), value]
    if wanted.force:
        options.append("--force")
    return options


# The environment


def _variable(name: str) -> str:
    return f"CUDASIM_{name.upper()}"


def setting(name: str) -> str | None:
    """Return the value of a setting in the environment, or None if it is not set."""
    return os.environ.get(_variable(name), "").strip() or None


def from_environment() -> Config | None:
    """Return the settings of the variables, or None if they give no number of GPUs.

    Raises ValueError as `parse` does.
    """
    gpus = setting("gpus")
    if gpus is None:
        return None
    return parse(
        gpus,
        setting("card"),
        setting("device_type"),
        force=os.environ.get(FORCE) == "1",
        source=VARIABLES,
        clock=setting("clock"),
        races=setting("races"),
    )


def to_environment(wanted: Config) -> dict[str, str]:
    """Return the environment variables for the same configuration."""
    variables = {FORCE: "1" if wanted.force else "0"}
    for name, value in wanted.settings().items():
        if value or setting(name):
            variables[_variable(name)] = value or ""
    return variables


def allocator_settings() -> str:
    """Return the settings of PyTorch's allocators in the environment, or an empty text."""
    texts = [os.environ.get(name, "").strip() for name in ALLOCATOR_SETTINGS]
    return next(filter(None, texts), "")


def visible_cards(uuids: Callable[[], list[str]], number: int) -> list[int]:
    """Return which of a machine's `number` cards CUDA_VISIBLE_DEVICES shows, in its order.

    These are all cards if it is not set, or has the value that a forced simulation found
    and ignored. An entry is an index, or the beginning of one card's identity
    (`GPU-...`), of which `uuids` returns all. The list ends at the first entry that is
    neither; naming a card twice leaves none.

    Sources: PyTorch's own reading (torch/cuda/__init__.py, `_parse_visible_devices`) and
    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    visible = os.environ.get(VISIBLE)
    if visible is None or visible == os.environ.get(IGNORED):
        return list(range(number))
    names = uuids() if visible.lstrip().startswith("GPU-") else None
    cards = []
    for entry in visible.split(","):
        if names is not None:
            card = _card_by_name(entry.strip(), names)
        else:
            card = _card_by_index(entry.strip(), number)
        if card is None:
            break
        if card in cards:
            return []
        cards.append(card)
    return cards


def _card_by_name(entry: str, uuids: list[str]) -> int | None:
    cards = [index for index, uuid in enumerate(uuids) if uuid.startswith(entry)]
    return cards[0] if len(cards) == 1 else None


def _card_by_index(entry: str, number: int) -> int | None:
    # CUDA reads with C's strtoul, which ignores what follows the digits.
    digits = re.match(r"\+?\d+", entry, re.ASCII)
    if digits is None or int(digits[0]) >= number:
        return None
    return int(digits[0])


def may_fork() -> bool:
    """Return whether a forked process may use its parent's GPUs.

    Raises ValueError if the variable has a value that is unknown.
    """
    value = setting("fork")
    if value not in (None, "allow"):
        raise ValueError(f"{FORK}={value!r}: unknown; set it to 'allow', or not at all")
    return value is not None


def shows_full_tracebacks() -> bool:
    """Return whether an error that ends the program is shown with this package's lines."""
    return os.environ.get(FULL_TRACEBACK) == "1"


def is_quiet() -> bool:
    """Return whether to print nothing, as in the child processes of a simulation."""
    return os.environ.get(QUIET) == "1"


def for_children(wanted: Config, inherited: bool = False) -> dict[str, str]:
    """Return the variables that give a child process the same GPUs.

    `inherited` is True if this process got its own GPUs in the same way.
    """
    variables = {**to_environment(wanted), QUIET: "1"}
    if wanted.force and not inherited and VISIBLE in os.environ:
        variables[IGNORED] = os.environ[VISIBLE]
    folder = str(Path(__file__).resolve().with_name("inherit"))
    path = os.environ.get("PYTHONPATH", "")
    if not startup_file.path().is_file() and folder not in path.split(os.pathsep):
        variables["PYTHONPATH"] = f"{folder}{os.pathsep}{path}" if path else folder
    return variables
