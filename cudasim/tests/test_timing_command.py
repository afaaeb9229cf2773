"""`python -m cudasim.timing`: the sheets as JSON, for programs that have no torch."""

import json

from programs import run

from cudasim.device.specs import CARDS
from cudasim.timing.formulas import copy_seconds
from cudasim.timing.sheets import find_sheet, sheet_names

WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_module("cudasim.timing", run_name="__main__")
"""


def test_it_prints_every_sheet_without_torch(tmp_path):
    got = run("-c", WITHOUT_TORCH, cwd=tmp_path)
    assert got.returncode == 0, got.stderr
    cards = {card["name"]: card for card in json.loads(got.stdout)["cards"]}
    assert [*cards] == sheet_names()
    for name, card in cards.items():
        sheet = find_sheet(name)
        assert card["peak"] == sheet.peak and card["memory"] == CARDS[name].memory
        assert card["seconds"]["copy"] == copy_seconds(2**30, sheet, "pinned")
