"""The recorder, end to end: simulated GPUs stand in for real ones, which are not there."""

import textwrap

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
    return run("-c", START + textwrap.dedent(text), *arguments, **variables)


def test_a_recording_is_complete_and_agrees(tmp_path, kept):
    enable = ENABLED.format(gpus=1, card="H100")
    done = script(f"{enable}recording.record(folder)", tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name == "simulated-gpu-h100.json"

    recording = read(path)
    assert (recording.card, recording.gpus) == ("Simulated GPU (H100)", 1)
    assert list(recording.programs) == SOME[:3]
    *progress, last = done.stdout.splitlines()[-4:]
    assert [line.split()[-1] for line in progress] == SOME[:3]
    assert last == f"{path}: 3 programs answered, 1 need more GPUs"

    known = programs()
    comparison = compare(recording, {name: known[name] for name in SOME}, kept)
    assert comparison.agree == SOME[:3]


# What is run for each program, in place of the real thing.
STAND_IN = """
import os, sys, time

name = sys.argv[1]
if name == "memory.requests_are_rounded_up":
    os.abort()
if name == "mixing.adding":
    time.sleep(60)
print('{"unexpected": "KeyError"}' if "seed" in name else "[1]")
"""


@pytest.mark.full
def test_programs_that_crash_hang_or_raise_are_told(tmp_path):
    write(tmp_path / "fidelity" / "running.py", STAND_IN)
    text = f"""
        running.SECONDS = 5
        running.HERE = Path({str(tmp_path / "fidelity")!r})
        recording.record(folder)
    """
    answers = tmp_path / "answers"
    done = script(ENABLED.format(gpus=2, card="T4") + textwrap.dedent(text), answers)
    recording = read(answers / "2x-simulated-gpu-t4.json")
    given = [each["answer"] for each in recording.programs.values()]
    assert given == [
        {"unexpected": "the process ended with exit code -6"},
        {"unexpected": "no answer within 5 s"},
        {"unexpected": "KeyError"},
        [1],
    ]
    last = done.stdout.splitlines()[-1]
    assert last == f"errors that the programs do not expect: {', '.join(SOME[:3])}"


@pytest.mark.full
def test_an_interrupted_recording_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "simulated-gpu-h100.json"
    path.write_text("the earlier answers")
    text = """\
    def interrupt(name):
        raise KeyboardInterrupt

    running.answer_apart = interrupt
    recording.record(folder)
    """
    enable = ENABLED.format(gpus=1, card="H100")
    done = script(enable + textwrap.dedent(text), tmp_path)
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "the earlier answers"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, "no GPU to record: torch "),
        ({"CUDASIM_GPUS": "1"}, "these GPUs are simulated: only real ones"),
    ],
)
def test_only_real_gpus_are_recorded(variables, words):
    before = sorted(ANSWERS.glob("*"))
    command = ["facts", "fidelity"]
    if "CUDASIM_GPUS" in variables:
        variables |= {"PYTHONPATH": "src"}
        command = ["-m", "cudasim", *command]
    done = run(*command, **variables)
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1]
    assert sorted(ANSWERS.glob("*")) == before


@pytest.mark.parametrize(
    ("card", "gpus", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 1, "nvidia-h100-80gb-hbm3"),
        ("NVIDIA GeForce RTX 4090", 2, "2x-nvidia-geforce-rtx-4090"),
    ],
)
def test_the_name_of_a_file(card, gpus, name):
    rest = dict.fromkeys(Recording.__dataclass_fields__, "")
    assert Recording(**rest | {"card": card, "gpus": gpus}).name == name


@pytest.mark.parametrize("command", ["fidelity", "survey", "tables"])
def test_without_torch_one_line_says_so(tmp_path, command):
    missing = "raise ModuleNotFoundError('none', name='torch')"
    (tmp_path / "torch.py").write_text(missing)
    done = run("facts", command, PYTHONPATH=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.endswith("no module 'torch' here: install torch and numpy")
