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
from pathlib import Path

FOLDER = "CUDASIM_FIGURES"  # as in cudasim.backends.cuda.publishing, which needs PyTorch
USED = struct.Struct("<Q")  # as there
MIB = 2**20
DRIVER = "0.0.0"  # no driver is here
UNKNOWN = "[N/A]"
OK, BAD_ARGUMENT, NOT_FOUND, NO_DRIVER = 0, 2, 6, 9  # NVIDIA's exit codes

SIZES = {  # fields in bytes, printed in MiB
    "memory.total": lambda gpu: gpu["total"],
    "memory.used": lambda gpu: gpu["used"],
    "memory.free": lambda gpu: gpu["memory"] - gpu["used"],
    "memory.reserved": lambda gpu: gpu["total"] - gpu["memory"],
}
FIELDS = {
    "index": lambda gpu: str(gpu["index"]),
    "name": lambda gpu: gpu["name"],
    "gpu_name": lambda gpu: gpu["name"],
    "uuid": lambda gpu: gpu["uuid"],
    "gpu_uuid": lambda gpu: gpu["uuid"],
    "count": lambda gpu: str(gpu["count"]),
    "gpu_count": lambda gpu: str(gpu["count"]),
    "driver_version": lambda gpu: DRIVER,
    "compute_cap": lambda gpu: gpu["capability"],
    "compute_mode": lambda gpu: "Default",
    "pci.bus_id": lambda gpu: f"00000000:{gpu['index'] + 1:02X}:00.0",
    "gpu_bus_id": lambda gpu: f"00000000:{gpu['index'] + 1:02X}:00.0",
    "timestamp": lambda gpu: time.strftime("%Y/%m/%d %H:%M:%S.000"),
}
UNITS = {  # fields that a simulation cannot know
    **dict.fromkeys(("utilization.gpu", "utilization.memory", "fan.speed"), "%"),
    **dict.fromkeys(("power.draw", "power.limit"), "W"),
    **dict.fromkeys(("clocks.sm", "clocks.mem", "clocks.gr"), "MHz"),
    **dict.fromkeys(("temperature.gpu", "pstate", "persistence_mode", "display_active"), ""),
    **dict.fromkeys(("ecc.mode.current", "mig.mode.current"), ""),
}
PROCESS_FIELDS = {
    "pid": lambda process: str(process["pid"]),
    "process_name": lambda process: process["program"],
    "name": lambda process: process["program"],
    "gpu_uuid": lambda process: process["uuid"],
    "gpu_name": lambda process: process["gpu"],
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
    for path in sorted(Path(folder).glob("*.json")) if folder else ():
        try:
            about = json.loads(path.read_text())
            sizes = USED.iter_unpack(path.with_suffix(".used").read_bytes())
        except FileNotFoundError:  # its process has just ended
            continue
        if not is_alive(about["pid"]):
            continue
        for gpu, (used,) in zip(about["gpus"], sizes, strict=True):
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


def chosen(cards: list[dict], wanted: str | None) -> list[dict]:
    """Those of `cards` that `--id` names: indices, identities or bus numbers, by commas."""
    if wanted is None:
        return cards
    result = []
    for name in wanted.split(","):
        names = ("index", "uuid", "pci.bus_id")
        matching = [card for card in cards if name.strip() in [FIELDS[n](card) for n in names]]
        if not matching:
            raise Refusal("No devices were found", NOT_FOUND)
        result += matching
    return result


def table(cards: list[dict], processes: list[dict]) -> list[str]:
    """What the command prints without arguments."""
    width = 71
    rule = "+" + "-" * width + "+"

    def row(text: str) -> str:
        return f"| {text:<{width - 2}} |"

    lines = [rule, row("SIMULATED GPUs, by cudasim: no NVIDIA driver is involved")]
    if processes:
        context = max(card["context"] for card in cards) // MIB
        lines.append(row(f"The CUDA context of a process on a card is modelled: {context}MiB"))
    lines.append(rule)
    lines.append(row(f"{'GPU':>3}  {'Name':<41} {'Memory-Usage':>22}"))
    lines.append(rule)
    for card in cards:
        usage = f"{card['used'] // MIB}MiB / {card['total'] // MIB}MiB"
        lines.append(row(f"{card['index']:>3}  {card['name']:<41} {usage:>22}"))
    lines += [rule, row("Processes (SIMULATED):"), row("GPU        PID  GPU memory  Name"), rule]
    indices = {card["index"] for card in cards}
    shown = [process for process in processes if process["index"] in indices]
    for process in shown:
        name = Path(process["program"]).name
        size = f"{process['used'] // MIB}MiB"
        lines.append(row(f"{process['index']:>3}  {process['pid']:>9}  {size:>10}  {name}"))
    if not shown:
        lines.append(row("No running processes found"))
    return [*lines, rule]


def values(fields: list[str], known: dict, sizes: dict, rows: list[dict], how: set) -> list[str]:
    """Lines of comma-separated values, with a header unless `how` says otherwise.

    Raises Refusal, with NVIDIA's words, for a field that there is not.
    """
    for field in fields:
        if field not in known and field not in sizes and field not in UNITS:
            raise Refusal(f'Field "{field}" is not a valid field to query.\n', BAD_ARGUMENT)

    def header(field: str) -> str:
        unit = "MiB" if field in sizes else UNITS.get(field, "")
        return f"{field} [{unit}]" if unit else field

    def value(field: str, row: dict) -> str:
        if field in sizes:
            size = str(sizes[field](row) // MIB)
            return size if "nounits" in how else f"{size} MiB"
        return known[field](row) if field in known else UNKNOWN

    lines = [", ".join(header(field) for field in fields)] if "noheader" not in how else []
    return lines + [", ".join(value(field, row) for field in fields) for row in rows]


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
    cards = chosen(cards, options.id)
    if options.list_gpus:
        return [f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})" for card in cards]
    query = options.query_gpu or options.query_compute_apps
    if not query:
        return table(cards, processes)
    how = {word.strip() for word in options.format.split(",")}
    if "csv" not in how:
        raise Refusal("A query needs --format=csv", BAD_ARGUMENT)
    fields = [field.strip() for field in query.split(",")]
    if options.query_gpu:
        return values(fields, FIELDS, SIZES, cards, how)
    indices = {card["index"] for card in cards}
    rows = [process for process in processes if process["index"] in indices]
    sizes = dict.fromkeys(("used_gpu_memory", "used_memory"), lambda process: process["used"])
    return values(fields, PROCESS_FIELDS, sizes, rows, how)


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
