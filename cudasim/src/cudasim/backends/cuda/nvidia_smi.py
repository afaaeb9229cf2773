"""`nvidia-smi` for simulated GPUs: the cards of the simulation that started it.

It prints what the simulating processes publish: which cards there are, and how much memory
each process takes of them. What a simulation does not know is `[N/A]`, as for NVIDIA's.
It imports nothing but the standard library, so it starts as fast as Python does.
"""

import argparse
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = "CUDASIM_FIGURES"  # as in cudasim.backends.cuda.publishing, which needs PyTorch
USED = struct.Struct("<Q")  # as there
MIB = 2**20
DRIVER = "0.0.0"  # no driver is here
UNKNOWN = "[N/A]"
WIDTH = 69  # characters between the edges of the table
OK, BAD_ARGUMENT, NOT_FOUND, NO_DRIVER = 0, 2, 6, 9  # NVIDIA's exit codes

Fields = dict[str, tuple[str, Callable[[dict], object]]]  # name -> (unit, the value in a row)


def _unknown(unit: str, *names: str) -> Fields:
    """Fields that a simulation cannot know."""
    return dict.fromkeys(names, (unit, lambda card: None))


CARDS: Fields = {
    **dict.fromkeys(("name", "gpu_name"), ("", lambda card: card["name"])),
    **dict.fromkeys(("uuid", "gpu_uuid"), ("", lambda card: card["uuid"])),
    **dict.fromkeys(("count", "gpu_count"), ("", lambda card: card["count"])),
    **dict.fromkeys(
        ("pci.bus_id", "gpu_bus_id"), ("", lambda card: f"00000000:{card['index'] + 1:02X}:00.0")
    ),
    "index": ("", lambda card: card["index"]),
    "driver_version": ("", lambda card: DRIVER),
    "compute_cap": ("", lambda card: card["capability"]),
    "compute_mode": ("", lambda card: "Default"),
    "timestamp": ("", lambda card: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "memory.total": ("MiB", lambda card: card["total"] // MIB),
    "memory.used": ("MiB", lambda card: card["used"] // MIB),
    "memory.free": ("MiB", lambda card: (card["memory"] - card["used"]) // MIB),
    "memory.reserved": ("MiB", lambda card: (card["total"] - card["memory"]) // MIB),
    **_unknown("%", "utilization.gpu", "utilization.memory", "fan.speed"),
    **_unknown("W", "power.draw", "power.limit"),
    **_unknown("MHz", "clocks.sm", "clocks.mem", "clocks.gr"),
    **_unknown("", "temperature.gpu", "pstate", "persistence_mode", "display_active"),
    **_unknown("", "ecc.mode.current", "mig.mode.current"),
}
PROCESSES: Fields = {
    "pid": ("", lambda process: process["pid"]),
    **dict.fromkeys(("process_name", "name"), ("", lambda process: process["program"])),
    "gpu_uuid": ("", lambda process: process["uuid"]),
    "gpu_name": ("", lambda process: process["gpu"]),
    **dict.fromkeys(
        ("used_gpu_memory", "used_memory"), ("MiB", lambda process: process["used"] // MIB)
    ),
}


class Refusal(Exception):
    """The command cannot be done: what to print, and the exit code."""

    def __init__(self, words: str, code: int) -> None:
        """The `words` to print and the exit `code`."""
        super().__init__(words)
        self.code = code


def published(folder: str | None) -> tuple[list[dict], list[dict]]:
    """(the GPUs, the processes on each) of the simulation that publishes in `folder`.

    Raises Refusal if there is none.
    """
    found: dict[int, dict] = {}
    processes = []
    for path in sorted(Path(folder).glob("*.figures")) if folder else ():
        try:
            first, _, sizes = path.read_bytes().partition(b"\n")
        except FileNotFoundError:  # its process has just ended
            continue
        about = json.loads(first)
        if not is_alive(about["pid"]):
            continue
        for gpu, (used,) in zip(about["gpus"], USED.iter_unpack(sizes), strict=True):
            known = found.setdefault(gpu["index"], {**gpu, "used": 0})
            known["used"] += used
            if used:
                on = {"gpu": gpu["name"], "uuid": gpu["uuid"], "index": gpu["index"]}
                size = {"used": used, "program": about["program"]}
                processes.append({"pid": about["pid"], **on, **size})
    if not found:
        raise Refusal(
            "cudasim: no simulation is running here. Start this command from a program that "
            "simulates GPUs.",
            NO_DRIVER,
        )
    cards = [found[index] for index in sorted(found)]
    for gpu in cards:
        gpu["count"] = len(cards)
    return cards, processes


def is_alive(pid: int) -> bool:
    """True if process `pid` runs. On Windows, where asking is not safe, always.

    One that has ended and that nobody has waited for holds nothing any more; Linux tells.
    """
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # it is another's, or this is not Linux
        return True
    return state not in ("Z", "X")


def chosen(cards: list[dict], wanted: str) -> list[dict]:
    """Those of `cards` that `--id` names: indices, identities or bus numbers, by commas."""
    result = []
    for name in map(str.strip, wanted.split(",")):
        fields = [CARDS[field][1] for field in ("index", "uuid", "pci.bus_id")]
        matching = [card for card in cards if name in [str(value(card)) for value in fields]]
        if not matching:
            raise Refusal("No devices were found", NOT_FOUND)
        result += matching
    return result


def table(cards: list[dict], processes: list[dict]) -> list[str]:
    """What the command prints without arguments."""
    about = ["SIMULATED GPUs, by cudasim: no NVIDIA driver is involved"]
    if processes:
        context = max(card["context"] for card in cards) // MIB
        about.append(f"The CUDA context of a process on a card is modelled: {context}MiB")
    shown = []
    for card in cards:
        usage = f"{card['used'] // MIB}MiB / {card['total'] // MIB}MiB"
        shown.append(f"{card['index']:>3}  {card['name']:<41} {usage:>22}")
    running = []
    for process in processes:
        size = f"{process['used'] // MIB}MiB"
        name = Path(process["program"]).name
        running.append(f"{process['index']:>3}  {process['pid']:>9}  {size:>10}  {name}")
    parts = [
        about,
        [f"{'GPU':>3}  {'Name':<41} {'Memory-Usage':>22}"],
        shown,
        ["Processes (SIMULATED):", "GPU        PID  GPU memory  Name"],
        running or ["No running processes found"],
    ]
    rule = f"+{'-' * (WIDTH + 2)}+"
    lines = [rule]
    for part in parts:
        lines += [*(f"| {text:<{WIDTH}} |" for text in part), rule]
    return lines


def values(names: list[str], known: Fields, rows: list[dict], how: set) -> list[str]:
    """Lines of comma-separated values, with a header unless `how` says otherwise.

    Raises Refusal, with NVIDIA's words, for a field that there is not.
    """
    for name in names:
        if name not in known:
            raise Refusal(f'Field "{name}" is not a valid field to query.\n', BAD_ARGUMENT)

    def text(row: dict, unit: str, value: Callable[[dict], object]) -> str:
        found = value(row)
        if found is None:
            return UNKNOWN
        return f"{found} {unit}" if unit and "nounits" not in how else str(found)

    units = [known[name][0] for name in names]
    titles = zip(names, units, strict=True)
    lines = [[f"{name} [{unit}]" if unit else name for name, unit in titles]]
    lines += [[text(row, *known[name]) for name in names] for row in rows]
    if "noheader" in how:
        del lines[0]
    return [", ".join(line) for line in lines]


def parser() -> argparse.ArgumentParser:
    """The options that are understood."""
    made = argparse.ArgumentParser("nvidia-smi", description=__doc__, allow_abbrev=False)
    made.add_argument("-L", "--list-gpus", action="store_true", help="name each card")
    made.add_argument("-i", "--id", help="only these cards: index or identity, by commas")
    made.add_argument("--query-gpu", metavar="FIELDS", help="fields of each card, by commas")
    made.add_argument("--query-compute-apps", metavar="FIELDS", help="fields of each process")
    made.add_argument("--format", default="", help="csv, csv,noheader or csv,noheader,nounits")
    return made


def answer(options: argparse.Namespace, folder: str | None) -> list[str]:
    """The lines to print. Raises Refusal."""
    cards, processes = published(folder)
    if options.id is not None:
        cards = chosen(cards, options.id)
        indices = {card["index"] for card in cards}
        processes = [process for process in processes if process["index"] in indices]
    if options.list_gpus:
        return [f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})" for card in cards]
    query = options.query_gpu or options.query_compute_apps
    if not query:
        return table(cards, processes)
    how = {word.strip() for word in options.format.split(",")}
    if "csv" not in how:
        raise Refusal("A query needs --format=csv", BAD_ARGUMENT)
    known, rows = (CARDS, cards) if options.query_gpu else (PROCESSES, processes)
    return values([name.strip() for name in query.split(",")], known, rows, how)


def main(arguments: list[str] | None = None) -> int:
    """Print what `arguments` request; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        lines = answer(options, os.environ.get(FOLDER))
    except Refusal as refusal:
        print(refusal)
        return refusal.code
    print("\n".join(lines))
    return OK


if __name__ == "__main__":
    sys.exit(main())
