"""The recorder, end to end: cudasim stands in for the GPU that is not there."""

import json
import os
import textwrap

import pytest
from programs import run_fidelity as run

from fidelity.comparing import compare, read_answers
from fidelity.index import programs
from fidelity.recording import ANSWERS, CannotRecord, card_folder

SOME = ["memory.nothing_at_first", "mixing.adding", "moves.copy_home", "two_gpus.moving"]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="recording needs a system that forks")

START = f"""\
import sys
from pathlib import Path
sys.path[:0] = [".", "src"]
from fidelity import recording
known = recording.programs()
recording.programs = lambda: {{name: known[name] for name in {SOME}}}
folder = Path(sys.argv[1])
"""


def script(text, *arguments, **variables):
    """Run a program that begins as `START` does: it knows of a few programs only."""
    return run("-c", START + textwrap.dedent(text), *arguments, **variables)


@forks
def test_a_recording_on_a_stand_in_is_complete_and_agrees(tmp_path, simulated):
    done = script("recording.record(folder, stand_in=(1, 'H100'))", tmp_path)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name == "simulated-gpu-h100.json"
    answers = read_answers(path)
    assert (answers["card"], answers["gpus"]) == ("Simulated GPU (H100)", 1)
    assert answers["torch"] and answers["date"] and answers["python"]
    assert list(answers["programs"]) == SOME[:3]
    lines = done.stdout.splitlines()
    assert sorted(line.split()[-1] for line in lines[:3]) == sorted(SOME[:3])  # the progress
    assert lines[2].startswith("[  3/3] memory.")  # what looks at the card's memory is last
    assert lines[3:] == [f"{path}: 3 programs answered, 1 need more GPUs"]
    known = {name: programs()[name] for name in SOME}
    assert compare(answers, known, simulated(1, "H100")).agree == SOME[:3]


@forks
def test_a_recording_on_two_gpus_has_the_programs_for_two(tmp_path):
    done = script("recording.record(folder, stand_in=(2, 'T4'))", tmp_path)
    assert done.returncode == 0, done.stderr
    answers = read_answers(tmp_path / "2xsimulated-gpu-t4.json")
    assert list(answers["programs"]) == SOME


@forks
def test_an_interrupted_recording_leaves_the_earlier_one(tmp_path, tmp_path_factory):
    path = tmp_path / "simulated-gpu-h100.json"
    path.write_text("the earlier answers")
    text = """\
    import os, signal, time
    from fidelity import running
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    running.answer = lambda name: (os.kill(os.getppid(), signal.SIGINT), time.sleep(10))
    recording.record(folder, stand_in=(1, 'H100'))
    """
    leftover = tmp_path_factory.mktemp("killed")  # what cudasim's children had no time to remove
    done = script(text, tmp_path, TMPDIR=str(leftover))
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "the earlier answers"


def test_an_interruption_is_one_line():
    text = """\
    def interrupt(*args):
        raise KeyboardInterrupt
    recording.record = interrupt
    from facts.__main__ import main
    sys.argv = ["facts", "fidelity"]
    main()
    """
    done = script(text, ".")
    assert done.returncode == 130
    assert done.stderr == "interrupted: what was not complete was not written\n"


def test_without_a_gpu_one_line_says_so():
    before = sorted(ANSWERS.glob("*"))
    done = run("facts", "fidelity", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("no GPU to record: torch ")
    assert sorted(ANSWERS.glob("*")) == before


@pytest.mark.parametrize("way", ["variable", "enabled"])
def test_simulated_gpus_are_not_recorded(tmp_path, way):
    if way == "variable":
        done = run("facts", "fidelity", CUDASIM_GPUS="1")
    else:
        text = "import cudasim; cudasim.enable(1); recording.record(folder)"
        done = script(text, tmp_path)
    assert done.returncode == 1 and list(tmp_path.iterdir()) == []
    assert "cudasim is enabled: only real GPUs are recorded" in done.stderr.splitlines()[-1]


@forks
def test_a_gpu_that_says_it_is_simulated_is_not_recorded(tmp_path):
    text = """\
    recording._refuse_simulation = lambda: None
    import cudasim
    cudasim.enable(1)
    recording.record(folder)
    """
    done = script(text, tmp_path)
    assert done.returncode == 1 and list(tmp_path.iterdir()) == []
    assert "these GPUs are simulated" in done.stderr.splitlines()[-1]


def test_a_stand_in_is_kept_from_the_answers_of_real_gpus():
    done = script("recording.record(recording.ANSWERS, stand_in=(1, 'T4'))", ".")
    assert done.returncode == 1
    assert "are never recorded as those of a GPU" in done.stderr.splitlines()[-1]


@pytest.mark.full
@forks
def test_a_program_that_crashes_or_hangs_is_told_and_the_others_answer():
    text = """\
    import json, os, time
    from fidelity import running
    tasks = {
        "crash": os.abort,
        "leave": lambda: os._exit(3),
        "well": lambda: [1],
        "raise": lambda: 1 / 0,
    }
    said = dict(running.in_processes(tasks, 2))
    running.SECONDS = 1
    said |= running.in_processes({"hang": lambda: time.sleep(60)}, 2)
    print(json.dumps(said))
    """
    done = script(text, ".")
    assert done.returncode == 0, done.stderr
    said = {
        name: each.get("unexpected") if isinstance(each, dict) else each
        for name, each in json.loads(done.stdout).items()
    }
    assert said == {
        "crash": "the process ended with exit code -6",
        "leave": "the process ended with exit code 3",
        "hang": "no answer within 1 s",
        "well": [1],
        "raise": "the process ended with exit code 1",
    }


@forks
def test_what_programs_do_not_expect_is_told_at_the_end(tmp_path):
    text = """\
    from fidelity import running
    running.answer = lambda name: {"unexpected": "RuntimeError: x"} if "moves" in name else 1
    recording.record(folder, stand_in=(1, "T4"))
    """
    done = script(text, tmp_path)
    assert done.stdout.splitlines()[-1] == (
        "of these, 1 raised what they do not expect: moves.copy_home"
    )


def test_an_unknown_name_gets_one_line():
    done = run("facts", "simulate", "nowhere.nothing")
    assert done.returncode == 1
    assert done.stderr == "no program and no theme: nowhere.nothing\n"


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["NVIDIA H100 80GB HBM3"], "h100"),
        (["NVIDIA H100 NVL"], "h100"),
        (["NVIDIA H200"], "h200"),
        (["Tesla T4", "Tesla T4"], "2xt4"),
        (["NVIDIA A100-SXM4-40GB"], "a100"),
        (["NVIDIA GeForce RTX 4090"], "rtx-4090"),
        (["AMD Instinct MI300X OAM"], "mi300x"),
    ],
)
def test_the_name_of_a_card(names, folder):
    assert card_folder(names) == folder


def test_cards_of_several_models_are_refused():
    with pytest.raises(CannotRecord, match=r"several models \(h100, t4\); choose those of one"):
        card_folder(["NVIDIA H100 80GB HBM3", "Tesla T4"])


@pytest.mark.parametrize("command", ["fidelity", "calibrate", "survey", "tables"])
def test_without_torch_one_line_says_so(tmp_path, command):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('none', name='torch')")
    done = run("facts", command, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.endswith("no module 'torch' here: install torch and numpy\n")
    assert len(done.stderr.splitlines()) == 1
