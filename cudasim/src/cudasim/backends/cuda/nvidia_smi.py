"""`nvidia-smi` for simulated GPUs: the cards of the simulation that started it.

It prints what the simulating processes publish: which cards there are, and how much
memory each process takes of them. What a simulation does not know is `[N/A]`, as for
NVIDIA's. It imports nothing but the standard library, so it starts as fast as Python does.
"""

import argparse
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "CUDASIM_FIGURES"  # environment variable: where the processes' files are
USED = struct.Struct("<Q")  # bytes that a process takes of one card
MIB = 2**20
# The first driver with the version of CUDA that `torch.version.cuda` names here, by the
# release notes of CUDA 13.0: https://docs.nvidia.com/cuda/archive/13.0.0/
DRIVER = "580.65.06"
UNKNOWN = "[N/A]"
# Of the chips GA100 and GH100: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
MIG_CAPABILITIES = ("8.0", "9.0")
WIDTH = 69  # characters between the edges of the table
CARD_ROW = "{:>3}  {:<41} {:>22}"
PROCESS_ROW = "{:>3}  {:>9}  {:>10}  {}"

# NVIDIA's exit codes.
OK = 0
BAD_ARGUMENT = 2
NOT_FOUND = 6
NO_DRIVER = 9


class Refusal(Exception):
    """The command cannot be done: what to print, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code


def bus_number(card: int) -> int:
    """Return the number of the PCI bus on which card number `card` of a machine is."""
    return card + 1


class CardState(NamedTuple):
    """A simulated card; sizes are in bytes."""

    index: int
    uuid: str
    name: str
    capability: str
    total: int  # memory on the board
    memory: int  # what programs can have of it
    context: int  # what a process takes by being there
    used: int
    count: int  # of the cards in the simulation
    # Figures of the data sheet, 0 if unknown: the highest clocks in MHz, the width of the
    # memory's bus in bits, and the limit of power in watts.
    clock: int
    memory_clock: int
    bus_width: int
    power: int

    @property
    def bus_number(self) -> int:
        return bus_number(self.index)

    @property
    def has_mig(self) -> bool:
        """Whether the card could be divided into instances; it never is."""
        return self.capability in MIG_CAPABILITIES

    @property
    def bus(self) -> str:
        return f"00000000:{self.bus_number:02X}:00.0"


class Process(NamedTuple):
    """A process on a card; one that uses two cards is there twice."""

    pid: int
    program: str
    index: int  # of the card
    uuid: str
    name: str
    used: int  # bytes of that card


Row = CardState | Process
Value = Callable[[Any], object]
Fields = dict[str, tuple[Value, str]]  # name -> (the value in a row, the unit)


def _unknown(row: Row) -> None:
    """The value of a field that a simulation cannot know."""


def _fields(names: str, value: Value = _unknown, unit: str = "") -> Fields:
    return dict.fromkeys(names.split(), (value, unit))


def _watts(power: int) -> str | None:
    return f"{power:.2f}" if power else None


def _mig_mode(card: CardState) -> str | None:
    return "Disabled" if card.has_mig else None


CARD_FIELDS: Fields = {
    **_fields("index", lambda card: card.index),
    **_fields("name gpu_name", lambda card: card.name),
    **_fields("uuid gpu_uuid", lambda card: card.uuid),
    **_fields("count gpu_count", lambda card: card.count),
    **_fields("pci.bus_id gpu_bus_id", lambda card: card.bus),
    **_fields("driver_version", lambda card: DRIVER),
    **_fields("compute_cap", lambda card: card.capability),
    **_fields("compute_mode", lambda card: "Default"),
    **_fields("timestamp", lambda card: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    **_fields("memory.total", lambda card: card.total // MIB, "MiB"),
    **_fields("memory.used", lambda card: card.used // MIB, "MiB"),
    **_fields("memory.free", lambda card: (card.memory - card.used) // MIB, "MiB"),
    **_fields("memory.reserved", lambda card: (card.total - card.memory) // MIB, "MiB"),
    **_fields("utilization.gpu utilization.memory fan.speed", unit="%"),
    **_fields("power.draw", unit="W"),
    **_fields("power.limit", lambda card: _watts(card.power), "W"),
    **_fields("power.default_limit", lambda card: _watts(card.power), "W"),
    **_fields("clocks.max.sm clocks.max.gr", lambda card: card.clock or None, "MHz"),
    **_fields("clocks.max.mem", lambda card: card.memory_clock or None, "MHz"),
    **_fields("clocks.sm clocks.mem clocks.gr", unit="MHz"),
    **_fields("temperature.gpu temperature.memory"),
    **_fields("pstate persistence_mode display_active display_mode"),
    **_fields("serial gpu_serial"),
    **_fields("ecc.mode.current"),
    **_fields("mig.mode.current mig.mode.pending", _mig_mode),
}
PROCESS_FIELDS: Fields = {
    **_fields("pid", lambda process: process.pid),
    **_fields("process_name name", lambda process: process.program),
    **_fields("gpu_uuid", lambda process: process.uuid),
    **_fields("gpu_name", lambda process: process.name),
    **_fields(
        "used_gpu_memory used_memory", lambda process: process.used // MIB, "MiB"
    ),
}


def published(folder: str | None) -> tuple[list[CardState], list[Process]]:
    """Return the cards, and the processes on them, of the simulation of `folder`.

    Raises Refusal if no process publishes there.
    """
    cards: dict[int, CardState] = {}
    processes: list[Process] = []
    for about, sizes in _read_figures(folder):
        for index, used in enumerate(sizes):
            card = cards.get(index) or _card(index, about)
            cards[index] = card._replace(used=card.used + used)
            if used:
                processes.append(_process(card, used, about))
    if not cards:
        raise Refusal(
            "cudasim: no simulation is running here. "
            "Start this command from a program that simulates GPUs.",
            NO_DRIVER,
        )
    count = len(cards)
    ordered = [cards[index]._replace(count=count) for index in sorted(cards)]
    return ordered, processes


def _card(index: int, about: dict[str, Any]) -> CardState:
    """Return a card of which nothing is known to be used, as a process describes it."""
    return CardState(
        index=index,
        uuid=about["uuids"][index],
        name=about["name"],
        capability=about["capability"],
        total=about["total"],
        memory=about["memory"],
        context=about["context"],
        used=0,
        count=0,
        clock=about["clock"],
        memory_clock=about["memory_clock"],
        bus_width=about["bus_width"],
        power=about["power"],
    )


def _process(card: CardState, used: int, about: dict[str, Any]) -> Process:
    return Process(
        pid=about["pid"],
        program=about["program"],
        index=card.index,
        uuid=card.uuid,
        name=card.name,
        used=used,
    )


def _read_figures(folder: str | None) -> Iterator[tuple[dict, list[int]]]:
    """Yield what each living process publishes: about itself, and bytes of each card."""
    if not folder:
        return
    for path in sorted(Path(folder).glob("*.figures")):
        try:
            line, _, sizes = path.read_bytes().partition(b"\n")
        except FileNotFoundError:  # its process has just ended
            continue
        about = json.loads(line)
        if is_alive(about["pid"]):
            yield about, [used for (used,) in USED.iter_unpack(sizes)]


def is_alive(pid: int) -> bool:
    """Tell whether process `pid` runs and is no zombie.

    On Windows, where the question is not safe, always True.
    """
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's, or this is not Linux
        return True
    _, _, after_name = stat.rpartition(")")
    state = after_name.split()[0]
    return state not in ("Z", "X")


def select_cards(cards: list[CardState], wanted: str) -> list[CardState]:
    """Return those of `cards` that `--id` names: indices, identities or bus numbers."""
    by_name: dict[str, CardState] = {}
    for card in cards:
        by_name[str(card.index)] = card
        by_name[card.uuid] = card
        by_name[card.bus] = card
    try:
        return [by_name[name.strip()] for name in wanted.split(",")]
    except KeyError:
        raise Refusal("No devices were found", NOT_FOUND) from None


def draw_table(cards: list[CardState], processes: list[Process]) -> list[str]:
    about = ["SIMULATED GPUs, by cudasim: no NVIDIA driver is involved"]
    if processes:
        context = max(card.context for card in cards) // MIB
        about.append(
            f"The CUDA context of a process on a card is modelled: {context}MiB"
        )

    card_lines = []
    for card in cards:
        usage = f"{card.used // MIB}MiB / {card.total // MIB}MiB"
        card_lines.append(CARD_ROW.format(card.index, card.name, usage))
    process_lines = []
    for process in processes:
        name = Path(process.program).name
        used = f"{process.used // MIB}MiB"
        line = PROCESS_ROW.format(process.index, process.pid, used, name)
        process_lines.append(line)

    return _boxed(
        about,
        [CARD_ROW.format("GPU", "Name", "Memory-Usage")],
        card_lines,
        [
            "Processes (SIMULATED):",
            PROCESS_ROW.format("GPU", "PID", "GPU memory", "Name"),
        ],
        process_lines or ["No running processes found"],
    )


def _boxed(*parts: list[str]) -> list[str]:
    rule = f"+{'-' * (WIDTH + 2)}+"
    lines = [rule]
    for part in parts:
        lines += [f"| {text:<{WIDTH}} |" for text in part]
        lines.append(rule)
    return lines


def query(names: list[str], fields: Fields, rows: list, options: set) -> list[str]:
    """Return the fields called `names` of each row, as CSV."""
    for name in names:
        if name not in fields:
            raise Refusal(
                f'Field "{name}" is not a valid field to query.\n', BAD_ARGUMENT
            )

    lines = []
    if "noheader" not in options:
        lines.append(", ".join(_heading(name, fields[name][1]) for name in names))
    with_units = "nounits" not in options
    for row in rows:
        cells = [_cell(row, *fields[name], with_units) for name in names]
        lines.append(", ".join(cells))
    return lines


def _heading(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _cell(row: Row, value: Value, unit: str, with_units: bool) -> str:
    content = value(row)
    if content is None:
        return UNKNOWN
    return f"{content} {unit}" if unit and with_units else str(content)


def answer(options: argparse.Namespace, folder: str | None) -> list[str]:
    """Return the lines that the command prints."""
    cards, processes = published(folder)
    if options.id is not None:
        cards = select_cards(cards, options.id)
        indices = {card.index for card in cards}
        processes = [process for process in processes if process.index in indices]
    if options.list_gpus:
        return [f"GPU {card.index}: {card.name} (UUID: {card.uuid})" for card in cards]

    fields = options.query_gpu or options.query_compute_apps
    if not fields:
        return draw_table(cards, processes)
    names = [name.strip() for name in fields.split(",")]
    form = {word.strip() for word in options.format.split(",")}
    if "csv" not in form:
        raise Refusal("A query needs --format=csv", BAD_ARGUMENT)
    if options.query_gpu:
        return query(names, CARD_FIELDS, cards, form)
    return query(names, PROCESS_FIELDS, processes, form)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "nvidia-smi", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("-L", "--list-gpus", action="store_true", help="name each card")
    parser.add_argument(
        "-i", "--id", help="only these cards: index or identity, by commas"
    )
    parser.add_argument(
        "--query-gpu", metavar="FIELDS", help="fields of each card, by commas"
    )
    parser.add_argument(
        "--query-compute-apps", metavar="FIELDS", help="fields of each process"
    )
    parser.add_argument(
        "--format", default="", help="csv, csv,noheader or csv,noheader,nounits"
    )
    return parser


def main() -> int:
    options = make_parser().parse_args()
    try:
        print("\n".join(answer(options, os.environ.get(FOLDER))))
    except Refusal as refusal:
        print(refusal.message)
        return refusal.code
    return OK


if __name__ == "__main__":
    sys.exit(main())
