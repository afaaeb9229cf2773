"""The table of the types that CUDA's kernels take, from PyTorch's own database of operators.

`dispatch/kernels.json` lists the operators of `op_db` whose types differ between the CPU and
CUDA. It gives the types of the CPU, and for each type of CUDA the least capability that has it,
among the cards that can be simulated. The database looks up the capability when it is imported,
so it is read in a new process for each capability.
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
    names = {card.capability: card.name for card in CARDS.values() if card.capability}
    cards = {}
    for major, minor in sorted(names):
        cards[f"{major}.{minor}"] = names[major, minor]
    return cards


def read_database(card: str) -> dict[str, Types]:
    """Return the types that the samples of each operator have with that `card`."""
    with cudasim.simulate(gpus=1, card=card, force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db

    types = {}
    for op in op_db:
        on_cpu = [short_name(dtype) for dtype in op.dtypes]
        on_cuda = [short_name(dtype) for dtype in op.dtypesIfCUDA]
        types[full_name(op)] = {"cpu": sorted(on_cpu), "cuda": sorted(on_cuda)}
    return types


def make_table() -> dict[str, Any]:
    """Return the table for the torch in use."""
    operators: dict[str, dict[str, Any]] = {}
    for capability, card in capabilities().items():
        for name, types in _read_in_new_process(card).items():
            entry = operators.setdefault(name, {"cpu": types["cpu"], "cuda": {}})
            least = entry["cuda"]
            for dtype in types["cuda"]:
                least.setdefault(dtype, capability)

    differing = {}
    for name, entry in sorted(operators.items()):
        if _differs(entry):
            differing[name] = entry
    version = torch.__version__.partition("+")[0]
    return {"torch": version, "operators": differing}


def _read_in_new_process(card: str) -> dict[str, Types]:
    command = [sys.executable, Path(__file__).parent, "types", "--card", card]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _differs(entry: dict[str, Any]) -> bool:
    """Return whether CUDA takes other types than the CPU, or some from a later card on."""
    if set(entry["cpu"]) != set(entry["cuda"]):
        return True
    least = next(iter(capabilities()))
    return any(capability != least for capability in entry["cuda"].values())


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for each operator that differs between two tables."""
    lines = []
    for name in sorted({*old["operators"], *new["operators"]}):
        before = old["operators"].get(name, "no entry")
        now = new["operators"].get(name, "no entry")
        if before != now:
            lines.append(f"{name}: {before} -> {now}")
    return lines


def renew(write: bool) -> list[str]:
    """Write the table for the torch in use, or return how it differs from the one there."""
    table = make_table()
    count = len(table["operators"])
    print(f"{TABLE.name}: {count} operators, torch {table['torch']}")
    if write:
        text = json.dumps(table, indent=1)
        TABLE.write_text(f"{text}\n", encoding="utf-8")
        return []
    earlier = json.loads(TABLE.read_text(encoding="utf-8"))
    return differences(earlier, table)
