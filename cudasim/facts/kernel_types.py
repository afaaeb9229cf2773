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
from facts.survey import load_databases


def capabilities() -> dict[tuple[int, int], str]:
    """One card of each capability that can be simulated, the least first."""
    found = {card.capability: card.name for card in CARDS.values() if card.capability}
    return dict(sorted(found.items()))


def read_database(card: str) -> dict[str, dict[str, list[str]]]:
    """Operator -> the types of its samples on the CPU and on CUDA, for that `card`."""
    with cudasim.simulate(gpus=1, card=card, force=True):
        load_databases()
        from torch.testing._internal.common_methods_invocations import op_db
    return {
        f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: {
            "cpu": sorted(map(short_name, op.dtypes)),
            "cuda": sorted(map(short_name, op.dtypesIfCUDA)),
        }
        for op in op_db
    }


def make_table() -> dict[str, Any]:
    """The table for the torch in use."""
    operators: dict[str, dict[str, Any]] = {}
    for (major, minor), card in capabilities().items():
        asked = [sys.executable, Path(__file__).parent, "types", "--card", card]
        done = subprocess.run(asked, check=True, capture_output=True, text=True)
        for name, types in json.loads(done.stdout.splitlines()[-1]).items():
            entry = operators.setdefault(name, {"cpu": types["cpu"], "cuda": {}})
            for dtype in types["cuda"]:
                entry["cuda"].setdefault(dtype, f"{major}.{minor}")
    least = "{}.{}".format(*next(iter(capabilities())))
    differing = {
        name: operators[name]
        for name in sorted(operators)
        if _differs(operators[name], least)
    }
    return {"torch": torch.__version__.partition("+")[0], "operators": differing}


def _differs(entry: dict[str, Any], least: str) -> bool:
    """Whether CUDA takes other types than the CPU, or some from a later capability on."""
    home, away = entry.values()
    return set(home) != set(away) or any(
        capability != least for capability in away.values()
    )


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two tables, a line for each operator."""
    before, now = old["operators"], new["operators"]
    return [
        f"{name}: {before.get(name, 'no entry')} -> {now.get(name, 'no entry')}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def renew(write: bool) -> list[str]:
    """Write the table for the torch in use, or tell how the one that is there differs from it."""
    table = make_table()
    if write:
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{TABLE.name}: {len(table['operators'])} operators, torch {table['torch']}")
    return differences(json.loads(TABLE.read_text(encoding="utf-8")), table)
