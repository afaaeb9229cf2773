"""`python -m cudasim.timing`: the sheets as JSON, for programs that have no torch."""

import json
import subprocess
import sys

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import copy_seconds
from cudasim.timing.sheets import find_sheet, sheet_names

WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_module("cudasim.timing", run_name="__main__")
"""


def test_it_prints_every_sheet_without_torch():
    run = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    cards = {card["name"]: card for card in json.loads(run.stdout)["cards"]}
    assert [*cards] == sheet_names()
    for name, card in cards.items():
        sheet = find_sheet(name)
        assert card["peak"] == sheet.peak and card["memory"] == CARDS[name].memory
        assert card["seconds"]["copy"] == copy_seconds(2**30, sheet, "pinned")
