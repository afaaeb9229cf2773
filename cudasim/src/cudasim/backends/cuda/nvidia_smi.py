"""`nvidia-smi` for simulated GPUs: the cards of the simulation that started it. It prints what the
simulating processes publish: which cards there are, and how much memory each process takes of them.
What a simulation does not know is `[N/A]`, as for NVIDIA's. It imports nothing but the standard
library, so it starts as fast as Python does."""

import argparse
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = "CUDASIM_FIGURES"  # environment variable: where the processes' files are
USED = struct.Struct("<Q")  # bytes that a process takes of one card
MIB = 2**20
DRIVER = "0.0.0"  # no driver is here
UNKNOWN = "[N/A]"
WIDTH = 69  # characters between the edges of the table
OK, BAD_ARGUMENT, NOT_FOUND, NO_DRIVER = 0, 2, 6, 9  # NVIDIA's exit codes

Value = Callable[[dict], object]
Fields = dict[str, tuple[Value, str]]  # name -> (the value in a row, the unit)


def _fields(names: str, value: Value = lambda row: None, unit: str = "") -> Fields:
    """Fields of these `names`; without a `value` such as a simulation cannot know."""
    return dict.fromkeys(names.split(), (value, unit))


CARDS: Fields = {
    **_fields("index", lambda card: card["index"]),
    **_fields("name gpu_name", lambda card: card["name"]),
    **_fields("uuid gpu_uuid", lambda card: card["uuid"]),
    **_fields("count gpu_count", lambda card: card["count"]),
    **_fields(
        "pci.bus_id gpu_bus_id", lambda card: f"00000000:{card['index'] + 1:02X}:00.0"
    ),
    **_fields("driver_version", lambda card: DRIVER),
    **_fields("compute_cap", lambda card: card["capability"]),
    **_fields("compute_mode", lambda card: "Default"),
    **_fields("timestamp", lambda card: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    **_fields("memory.total", lambda card: card["total"] // MIB, "MiB"),
    **_fields("memory.used", lambda card: card["used"] // MIB, "MiB"),
    **_fields(
        "memory.free", lambda card: (card["memory"] - card["used"]) // MIB, "MiB"
    ),
    **_fields(
        "memory.reserved", lambda card: (card["total"] - card["memory"]) // MIB, "MiB"
    ),
    **_fields("utilization.gpu utilization.memory fan.speed", unit="%"),
    **_fields("power.draw power.limit", unit="W"),
    **_fields("clocks.sm clocks.mem clocks.gr", unit="MHz"),
    **_fields(
        "temperature.gpu temperature.memory pstate persistence_mode display_active"
    ),
    **_fields("ecc.mode.current mig.mode.current"),
}
PROCESSES: Fields = {
    **_fields("pid", lambda process: process["pid"]),
    **_fields("process_name name", lambda process: process["program"]),
    **_fields("gpu_uuid", lambda process: process["uuid"]),
    **_fields("gpu_name", lambda process: process["name"]),
    **_fields(
        "used_gpu_memory used_memory", lambda process: process["used"] // MIB, "MiB"
    ),
}


class Refusal(Exception):
    """The command cannot be done: what to print, and the exit code."""


def published(folder: str | None) -> tuple[list[dict], list[dict]]:
    """The GPUs, and the processes on them, of the simulation that publishes in `folder`."""
    cards: dict[int, dict] = {}
    processes = []
    for path in sorted(Path(folder).glob("*.figures")) if folder else ():
        try:
            first, _, sizes = path.read_bytes().partition(b"\n")
        except FileNotFoundError:  # its process has just ended
            continue
        about = json.loads(first)
        if not is_alive(about["pid"]):
            continue
        for index, (used,) in enumerate(USED.iter_unpack(sizes)):
            gpu = {**about, "index": index, "uuid": about["uuids"][index], "used": used}
            cards.setdefault(index, {**gpu, "used": 0})["used"] += used
            if used:
                processes.append(gpu)
    if not cards:
        start = "Start this command from a program that simulates GPUs."
        raise Refusal(f"cudasim: no simulation is running here. {start}", NO_DRIVER)
    return [{**cards[index], "count": len(cards)} for index in sorted(cards)], processes


def is_alive(pid: int) -> bool:
    """True if process `pid` runs and is no zombie. On Windows, where asking is not safe, always."""
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
    values = [CARDS[field][0] for field in ("index", "uuid", "pci.bus_id")]
    named = {str(value(card)): card for card in cards for value in values}
    try:
        return [named[name.strip()] for name in wanted.split(",")]
    except KeyError:
        raise Refusal("No devices were found", NOT_FOUND) from None


def table(cards: list[dict], processes: list[dict]) -> list[str]:
    about = ["SIMULATED GPUs, by cudasim: no NVIDIA driver is involved"]
    if processes:
        context = max(card["context"] for card in cards) // MIB
        about.append(
            f"The CUDA context of a process on a card is modelled: {context}MiB"
        )
    of_card, of_process = (
        "{:>3}  {:<41} {:>22}".format,
        "{:>3}  {:>9}  {:>10}  {}".format,
    )
    heads, shown = [of_card("GPU", "Name", "Memory-Usage")], []
    for card in cards:
        usage = f"{card['used'] // MIB}MiB / {card['total'] // MIB}MiB"
        shown.append(of_card(card["index"], card["name"], usage))
    running = []
    for each in processes:
        name = Path(each["program"]).name
        running.append(
            of_process(each["index"], each["pid"], f"{each['used'] // MIB}MiB", name)
        )
    titles = ["Processes (SIMULATED):", of_process("GPU", "PID", "GPU memory", "Name")]
    rule = f"+{'-' * (WIDTH + 2)}+"
    lines = [rule]
    for part in (
        about,
        heads,
        shown,
        titles,
        running or ["No running processes found"],
    ):
        lines += [*(f"| {text:<{WIDTH}} |" for text in part), rule]
    return lines


def values(names: list[str], known: Fields, rows: list[dict], how: set) -> list[str]:
    for name in names:
        if name not in known:
            raise Refusal(
                f'Field "{name}" is not a valid field to query.\n', BAD_ARGUMENT
            )

    def text(row: dict, value: Value, unit: str) -> str:
        found = value(row)
        if found is None:
            return UNKNOWN
        return f"{found} {unit}" if unit and "nounits" not in how else str(found)

    lines = [[text(row, *known[name]) for name in names] for row in rows]
    if "noheader" not in how:
        lines.insert(
            0, [f"{name} [{known[name][1]}]".removesuffix(" []") for name in names]
        )
    return [", ".join(line) for line in lines]


def answer(options: argparse.Namespace, folder: str | None) -> list[str]:
    cards, processes = published(folder)
    if options.id is not None:
        cards = chosen(cards, options.id)
        indices = {card["index"] for card in cards}
        processes = [process for process in processes if process["index"] in indices]
    if options.list_gpus:
        return [
            f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})"
            for card in cards
        ]
    query = options.query_gpu or options.query_compute_apps
    if not query:
        return table(cards, processes)
    how = {word.strip() for word in options.format.split(",")}
    if "csv" not in how:
        raise Refusal("A query needs --format=csv", BAD_ARGUMENT)
    known, rows = (CARDS, cards) if options.query_gpu else (PROCESSES, processes)
    return values([name.strip() for name in query.split(",")], known, rows, how)


def main() -> int:
    made = argparse.ArgumentParser(
        "nvidia-smi", description=__doc__, allow_abbrev=False
    )
    made.add_argument("-L", "--list-gpus", action="store_true", help="name each card")
    made.add_argument(
        "-i", "--id", help="only these cards: index or identity, by commas"
    )
    made.add_argument(
        "--query-gpu", metavar="FIELDS", help="fields of each card, by commas"
    )
    made.add_argument(
        "--query-compute-apps", metavar="FIELDS", help="fields of each process"
    )
    made.add_argument(
        "--format", default="", help="csv, csv,noheader or csv,noheader,nounits"
    )
    try:
        print("\n".join(answer(made.parse_args(), os.environ.get(FOLDER))))
    except Refusal as refusal:
        words, code = refusal.args
        print(words)
        return code
    return OK


if __name__ == "__main__":
    sys.exit(main())
