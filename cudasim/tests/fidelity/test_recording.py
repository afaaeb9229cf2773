"""The recorder, end to end: cudasim stands in for the GPU that is not there."""

import json
import os
import textwrap

import pytest
from programs import run_fidelity as run

from fidelity.comparing import compare, read_answers
from fidelity.index import programs
from fidelity.recording import ANSWERS, CannotRecord, card_folder

SOME = [
    "memory.nothing_at_first",
    "mixing.adding",
    "moves.copy_home",
    "two_gpus.moving",
]
forks = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="recording needs a system that forks"
)

START = f"""\
import sys
from pathlib import Path
sys.path[:0] = [".", "src"]
from fidelity import recording, running
known = recording.programs()
recording.programs = lambda: {{name: known[name] for name in {SOME}}}
folder = Path(sys.argv[1])
"""


def script(text, *arguments, **variables):
    """Run a program that begins as `START` does: it knows of a few programs only."""
    return run("-c", START + textwrap.dedent(text), *arguments, **variables)


@forks
def test_a_recording_on_a_stand_in_is_complete_and_agrees(tmp_path, kept):
    done = script("recording.record(folder, stand_in=(1, 'H100'))", tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name == "simulated-gpu-h100.json"
    answers = read_answers(path)
    assert (answers["card"], answers["gpus"]) == ("Simulated GPU (H100)", 1)
    assert list(answers["programs"]) == SOME[:3]
    *progress, last = done.stdout.splitlines()
    assert sorted(line.split()[-1] for line in progress) == sorted(SOME[:3])
    assert progress[2].startswith(
        "[  3/3] memory."
    )  # what looks at the card's memory is last
    assert last == f"{path}: 3 programs answered, 1 need more GPUs"
    assert (
        compare(answers, {name: programs()[name] for name in SOME}, kept).agree
        == SOME[:3]
    )


@forks
def test_what_programs_do_not_expect_is_told_at_the_end(tmp_path):
    text = """\
    real = running.answer
    running.answer = lambda name: real("nowhere.nothing") if "moves" in name else 1
    recording.record(folder, stand_in=(2, "T4"))
    """
    done = script(text, tmp_path)
    assert done.stdout.splitlines()[-1].endswith("they do not expect: moves.copy_home")
    assert list(read_answers(tmp_path / "2xsimulated-gpu-t4.json")["programs"]) == SOME


@forks
def test_an_interrupted_recording_leaves_the_earlier_one(tmp_path, tmp_path_factory):
    path = tmp_path / "simulated-gpu-h100.json"
    path.write_text("the earlier answers")
    text = """\
    import os, signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    running.answer = lambda name: (os.kill(os.getppid(), signal.SIGINT), time.sleep(10))
    recording.record(folder, stand_in=(1, 'H100'))
    """
    leftover = tmp_path_factory.mktemp(
        "killed"
    )  # what cudasim's children had no time to remove
    done = script(text, tmp_path, TMPDIR=str(leftover))
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr
    assert (
        list(tmp_path.iterdir()) == [path] and path.read_text() == "the earlier answers"
    )


ENABLED = "import cudasim; cudasim.enable(1)\n"
UNSEEN = "recording._refuse_simulation = lambda: None\n"
STAND_IN = "recording.record(recording.ANSWERS, stand_in=(1, 'T4'))"


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        ("", {"CUDA_VISIBLE_DEVICES": ""}, "no GPU to record: torch "),
        ("", {"CUDASIM_GPUS": "1"}, "cudasim is enabled: only real GPUs are recorded"),
        (ENABLED, {}, "cudasim is enabled: only real GPUs are recorded"),
        pytest.param(UNSEEN + ENABLED, {}, "these GPUs are simulated", marks=forks),
        (STAND_IN, {}, "are never recorded as those of a GPU"),
    ],
)
def test_only_real_gpus_are_recorded(tmp_path, text, variables, words):
    before = sorted(ANSWERS.glob("*"))
    if text:
        done = script(text + "\nrecording.record(folder)", tmp_path)
    else:
        done = run("facts", "fidelity", **variables)
        assert len(done.stderr.splitlines()) == 1
    assert done.returncode == 1 and words in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == [] and sorted(ANSWERS.glob("*")) == before


@pytest.mark.full
@forks
def test_a_program_that_crashes_or_hangs_is_told_and_the_others_answer():
    text = """\
    import json, os, time
    tasks = {"crash": os.abort, "well": lambda: [1], "raise": lambda: 1 / 0}
    said = dict(running.in_processes(tasks, 2))
    running.SECONDS = 1
    said |= running.in_processes({"hang": lambda: time.sleep(60)}, 2)
    print(json.dumps(said))
    """
    done = script(text, ".")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "crash": {"unexpected": "the process ended with exit code -6"},
        "hang": {"unexpected": "no answer within 1 s"},
        "well": [1],
        "raise": {"unexpected": "the process ended with exit code 1"},
    }


def test_the_name_of_a_card():
    for name, folder in (
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X OAM", "mi300x"),
    ):
        assert (card_folder([name]), card_folder([name] * 2)) == (folder, f"2x{folder}")
        with pytest.raises(
            CannotRecord, match=r"several models \(.*\); choose those of one with"
        ):
            card_folder([name, "NVIDIA B200"])


@pytest.mark.parametrize("command", ["fidelity", "calibrate", "survey", "tables"])
def test_without_torch_one_line_says_so(tmp_path, command):
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError('none', name='torch')"
    )
    done = run("facts", command, PYTHONPATH=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.endswith("no module 'torch' here: install torch and numpy")
