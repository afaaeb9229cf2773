"""The table of the types that CUDA's kernels take, from PyTorch's own database of operators.

`dispatch/kernels.json` lists the operators of `op_db` whose types differ between the CPU and
CUDA: those of the CPU, and for each of CUDA's the least capability that has it, among the cards
that can be simulated. The database asks for the capability when it is imported, so each has a
process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import cudasim
from cudasim.device.specs import CARDS
from cudasim.dispatch.dtypes import TABLE, short_name
from facts.survey import full_name, load_databases

Types = dict[str, list[str]]  # of samples, by device: cpu, cuda


def capabilities() -> dict[str, str]:
    """Return one card of each capability that can be simulated, the least first."""
    cards = {card.capability: card.name for card in CARDS.values() if card.capability}
    return {f"{major}.{minor}": cards[major, minor] for major, minor in sorted(cards)}


def read_database(card: str) -> dict[str, Types]:
    """Return the types that each operator's samples have with that `card`."""
    with cudasim.simulate(gpus=1, card=card, force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db

    types = {}
    for op in op_db:
        cpu = sorted(map(short_name, op.dtypes))
        cuda = sorted(map(short_name, op.dtypesIfCUDA))
        types[full_name(op)] = {"cpu": cpu, "cuda": cuda}
    return types


def make_table() -> dict[str, Any]:
    """Return the table for the torch in use."""
    operators: dict[str, dict[str, Any]] = {}
    for capability, card in capabilities().items():
        for name, types in _read_apart(card).items():
            entry = operators.setdefault(name, {"cpu": types["cpu"], "cuda": {}})
            for dtype in types["cuda"]:
                entry["cuda"].setdefault(dtype, capability)

    differing = {}
    for name in sorted(operators):
        if _differs(operators[name]):
            differing[name] = operators[name]
    return {"torch": torch.__version__.partition("+")[0], "operators": differing}


def _read_apart(card: str) -> dict[str, Types]:
    command = [sys.executable, Path(__file__).parent, "types", "--card", card]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _differs(entry: dict[str, Any]) -> bool:
    """Return whether CUDA takes other types than the CPU, or some from a later card on."""
    least = next(iter(capabilities()))
    later = any(capability != least for capability in entry["cuda"].values())
    return later or set(entry["cpu"]) != set(entry["cuda"])


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each operator that differs between two tables."""
    before, now = old["operators"], new["operators"]
    lines = []
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            was, is_now = before.get(name, "no entry"), now.get(name, "no entry")
            lines.append(f"{name}: {was} -> {is_now}")
    return lines


def renew(write: bool) -> list[str]:
    """Write the table for the torch in use, or return how it differs from the one there."""
    table = make_table()
    if write:
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{TABLE.name}: {len(table['operators'])} operators, torch {table['torch']}")
    return differences(json.loads(TABLE.read_text(encoding="utf-8")), table)
