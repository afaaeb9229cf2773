"""A card of one's own: the path of a file in the form of `timing/cards`, in place of a name."""

import json
from dataclasses import asdict

import pytest
from programs import run

from cudasim.timing.sheets import find_sheet

PROVENANCE = {
    "hardware": "Tesla T4",
    "memory": 15_636_365_312,
    "capability": [7, 5],
    "cache": 4 * 2**20,
}
SIMULATED = """
import subprocess, sys, torch, cudasim

cudasim.enable(gpus=1, card=sys.argv[1], clock="modelled")
gib = torch.cuda.get_device_properties(0).total_memory / 2**30
print(torch.cuda.get_device_name(), gib, flush=True)
child = "import torch; print(torch.cuda.get_device_name())"
subprocess.run([sys.executable, "-c", child], cwd="/")
cudasim.disable()
cudasim.enable(card="nowhere.json")
"""


@pytest.fixture
def card_file(tmp_path):
    """The file of a card with the figures of a T4 and another name."""
    sheet = asdict(find_sheet("T4"))
    sheet |= {"name": "My T4", "provenance": PROVENANCE}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(sheet))
    return path


def test_a_card_is_simulated_by_the_path_of_its_file(card_file):
    done = run("-c", SIMULATED, card_file.name, cwd=card_file.parent)
    name = "Simulated GPU (My T4, modelled time)"
    lines = [line for line in done.stdout.splitlines() if line.startswith(name)]
    assert lines == [f"{name} 14.5625", name]
    error = done.stderr.splitlines()[-1]
    assert error.startswith("ValueError: ")
    assert "nowhere.json: no such file" in error


def test_a_file_that_does_not_say_what_the_card_is_is_refused(card_file):
    sheet = json.loads(card_file.read_text())
    del sheet["provenance"]["memory"]
    card_file.write_text(json.dumps(sheet))
    command = ["-m", "cudasim", "--card", card_file, "program.py"]
    done = run(*command, cwd=card_file.parent)
    assert done.returncode == 1
    reason = "card='My T4': the provenance in its file says no memory; add it"
    assert reason in done.stderr
