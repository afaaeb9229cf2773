"""The recorder, end to end: simulated GPUs stand in for real ones, which are not there."""

import pytest
from programs import run_fidelity as run
from programs import write

from fidelity.comparing import compare
from fidelity.index import programs
from fidelity.recording import ANSWERS, Recording, read

SOME = [
    "memory.requests_are_rounded_up",
    "mixing.adding",
    "randomness.the_same_seed_on_cpu_and_gpu",
    "streams.events_of_two_gpus",
]
START = f"""\
import sys
from pathlib import Path
sys.path[:0] = [".", "src"]
from fidelity import recording, running
known = recording.programs()
recording.programs = lambda: {{name: known[name] for name in {SOME}}}
folder = Path(sys.argv[1])
"""
ENABLED = "import cudasim; cudasim.enable({gpus}, '{card}', force=True)\n"


def script(text, *arguments, **variables):
    """Run a program that begins as `START` does: it knows of a few programs only."""
    return run("-c", START + text, *arguments, **variables)


def test_a_recording_is_complete_and_agrees(tmp_path, kept):
    enable = ENABLED.format(gpus=1, card="H100")
    done = script(f"{enable}recording.record(folder)", tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name == "simulated-gpu-h100.json"

    recording = read(path)
    assert recording.card == "Simulated GPU (H100)"
    assert recording.gpus == 1
    assert list(recording.programs) == SOME[:3]
    *progress, last = done.stdout.splitlines()[-4:]
    assert [line.split()[-1] for line in progress] == SOME[:3]
    assert last == f"{path}: 3 programs answered, 1 need more GPUs"

    every = programs()
    known = {name: every[name] for name in SOME}
    comparison = compare(recording, known, kept)
    assert comparison.agree == SOME[:3]


# What is run for each program, in place of the real thing.
STAND_IN = """
import os
import sys
import time

name = sys.argv[1]
if name == "memory.requests_are_rounded_up":
    os.abort()
elif name == "mixing.adding":
    time.sleep(600)
elif name == "randomness.the_same_seed_on_cpu_and_gpu":
    print('{"unexpected": "KeyError"}')
else:
    print("[1]")
"""


@pytest.mark.full
def test_programs_that_crash_hang_or_raise_are_told(tmp_path):
    write(tmp_path / "fidelity" / "running.py", STAND_IN)
    enable = ENABLED.format(gpus=2, card="T4")
    record = f"""\
running.SECONDS = 5
running.HERE = Path({str(tmp_path / "fidelity")!r})
recording.record(folder)
"""
    answers = tmp_path / "answers"
    done = script(enable + record, answers)
    recording = read(answers / "2x-simulated-gpu-t4.json")
    assert [program["answer"] for program in recording.programs.values()] == [
        {"unexpected": "the process ended with exit code -6"},
        {"unexpected": "no answer within 5 s"},
        {"unexpected": "KeyError"},
        [1],
    ]
    last = done.stdout.splitlines()[-1]
    surprises = ", ".join(SOME[:3])
    assert last == f"errors that the programs do not expect: {surprises}"


@pytest.mark.full
def test_an_interrupted_recording_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "simulated-gpu-h100.json"
    path.write_text("the earlier answers")
    enable = ENABLED.format(gpus=1, card="H100")
    record = """\
def interrupt(name):
    raise KeyboardInterrupt

running.answer_apart = interrupt
recording.record(folder)
"""
    done = script(enable + record, tmp_path)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "the earlier answers"


def refusal(*command, **variables):
    """Return the last line of a recording that must fail and write nothing."""
    before = sorted(ANSWERS.glob("*"))
    done = run(*command, **variables)
    assert done.returncode == 1
    assert sorted(ANSWERS.glob("*")) == before
    return done.stderr.splitlines()[-1]


def test_without_a_gpu_nothing_is_recorded():
    line = refusal("facts", "fidelity", CUDA_VISIBLE_DEVICES="")
    assert "no GPU to record: torch " in line


def test_simulated_gpus_are_not_recorded():
    command = ["-m", "cudasim", "--gpus", 1, "facts", "fidelity"]
    line = refusal(*command, PYTHONPATH="src")
    assert "these GPUs are simulated: only real ones" in line


@pytest.mark.parametrize(
    ("card", "gpus", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 1, "nvidia-h100-80gb-hbm3"),
        ("NVIDIA GeForce RTX 4090", 2, "2x-nvidia-geforce-rtx-4090"),
    ],
)
def test_the_name_of_a_file(card, gpus, name):
    facts = dict.fromkeys(Recording.__dataclass_fields__, "")
    facts |= {"card": card, "gpus": gpus}
    assert Recording(**facts).name == name


@pytest.mark.parametrize("command", ["fidelity", "survey", "tables"])
def test_without_torch_one_line_says_so(tmp_path, command):
    missing = "raise ModuleNotFoundError('none', name='torch')"
    (tmp_path / "torch.py").write_text(missing)
    done = run("facts", command, PYTHONPATH=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.endswith("no module 'torch' here: install torch and numpy")
