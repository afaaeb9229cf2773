"""`nvidia-smi`, and what a simulation publishes for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from calls import MIB, block, raised
from programs import run

import cudasim
from cudasim.backends.cuda import nvidia_smi, publishing
from cudasim.device.types.cuda import CUDA

pytestmark = pytest.mark.usefixtures("two_gpus")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

CONTEXT = CUDA.context // MIB
QUERY = "--query-gpu=memory.used"
BARE = "--format=csv,noheader,nounits"


def smi(question="", command=("nvidia-smi",)):
    """(exit code, what is said) of the command."""
    command = [*command, *question.split()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return answer.returncode, answer.stdout + answer.stderr


def used():
    return [int(line) for line in smi(f"{QUERY} {BARE}")[1].splitlines()]


def identity(index):
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


def test_the_table_is_straight_and_says_that_it_is_simulated():
    code, text = smi()
    assert code == 0 and "SIMULATED" in text and text.count("Simulated GPU (T4)") == 2
    assert (
        "No running processes found" in text and "context" not in text
    )  # until one has it
    cudasim.disable()
    for card in ("TITAN RTX", "H200"):
        with cudasim.simulate(card=card, clock="modelled"):
            X = torch.ones(2, 3, device="cuda")
            text = smi()[1]
            assert len({len(line) for line in text.splitlines()}) == 1 and card in text
            assert f" {CONTEXT + 2}MiB / " in text and text.count(" 0MiB / ") == 1
            assert f"{os.getpid()}      {CONTEXT + 2}MiB" in text and CONTEXT == 135
            assert f"context of a process on a card is modelled: {CONTEXT}MiB" in text
            del X


def test_memory_in_use_is_the_context_and_what_is_reserved_at_that_moment():
    assert used() == [0, 0]
    blocks = [block(20, "cuda:1")]
    assert used() == [0, CONTEXT + 20]
    blocks.append(block(20, "cuda:1"))
    assert used() == [0, CONTEXT + 40]
    blocks.clear()
    assert used() == [0, CONTEXT + 40]  # the cache keeps it
    torch.cuda.empty_cache()
    assert used() == [0, CONTEXT] and torch.cuda.memory_reserved(1) == 0
    free, total = torch.cuda.mem_get_info(0)  # who asks has a context
    assert total - free == CUDA.context and used() == [CONTEXT, CONTEXT]


def test_queries_print_as_nvidias():
    held, names = block(64), [identity(n) for n in range(2)]
    mine = CONTEXT + 64
    questions = {
        "--query-gpu=index,name,memory.total,memory.used,memory.free --format=csv": (
            "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n"
            f"0, Simulated GPU (T4), 15360 MiB, {mine} MiB, {14912 - mine} MiB\n"
            "1, Simulated GPU (T4), 15360 MiB, 0 MiB, 14912 MiB\n"
        ),
        "--query-gpu=uuid,driver_version,utilization.gpu,count --format=csv,noheader": (
            f"{names[0]}, 0.0.0, [N/A], 2\n{names[1]}, 0.0.0, [N/A], 2\n"
        ),
        f"-i 1 --query-gpu=temperature.gpu,temperature.memory {BARE}": "[N/A], [N/A]\n",
        "--query-compute-apps=pid,used_memory --format=csv": (
            f"pid, used_memory [MiB]\n{os.getpid()}, {mine} MiB\n"
        ),
        "-L": "".join(
            f"GPU {n}: Simulated GPU (T4) (UUID: {names[n]})\n" for n in (0, 1)
        ),
        f"-i 1,0 --query-gpu=index {BARE}": "1\n0\n",
        f"-i 1 --query-compute-apps=pid {BARE}": "\n",
        f"--id=0 {QUERY} {BARE}": f"{mine}\n",
        f"-i=0 {QUERY} {BARE}": f"{mine}\n",
        f"--id {names[0]} {QUERY} {BARE}": f"{mine}\n",
    }
    for question, answer in questions.items():
        assert smi(question) == (0, answer)
    del held


def test_bad_questions_are_refused_with_nvidias_exit_codes():
    for question, code, words in (
        ("-i 7", 6, "No devices were found\n"),
        (
            "--query-gpu=memory.usage --format=csv",
            2,
            'Field "memory.usage" is not a valid field',
        ),
        (QUERY, 2, "format"),
        ("--reboot", 2, "--reboot"),
    ):
        told, text = smi(question)
        assert told == code and words in text
    cudasim.disable()
    code, text = smi(command=[sys.executable, nvidia_smi.__file__])
    assert code == 9 and "no simulation is running" in text


@forks
def test_other_ways_of_starting_programs_see_the_figures(tmp_path):
    blocks, out = [block(64)], tmp_path / "out"
    command = f"nvidia-smi {QUERY} {BARE} --id=0 > '{out}'"
    assert os.system(command) == 0 and out.read_text() == f"{CONTEXT + 64}\n"
    blocks.append(block(64))
    child = os.fork()
    if child == 0:
        os.execvp("sh", ["sh", "-c", command])
    os.waitpid(child, 0)
    assert out.read_text() == f"{CONTEXT + 128}\n"


HOLDER = """
import torch
x = torch.ones(64 * 2**18, device="cuda:1")
print("holds", flush=True)
input()
"""


def test_two_processes_share_a_card():
    torch.ones(1, device="cuda:1")
    before, total = torch.cuda.mem_get_info(1)
    command, pipe = [sys.executable, "-c", HOLDER], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout.readline() == "holds\n"
        assert before - torch.cuda.mem_get_info(1)[0] == 64 * MIB + CUDA.context
        assert used() == [0, 2 * CONTEXT + 64 + 2]
        apps = smi(f"--query-compute-apps=pid,gpu_uuid,used_memory {BARE}")[1]
        for pid, mib in ((os.getpid(), 2), (other.pid, 64)):
            assert f"{pid}, {identity(1)}, {CONTEXT + mib}\n" in apps
        torch.cuda.set_per_process_memory_fraction(1.0, 1)
        wanted = (before - 100 * MIB) // 4
        said = raised(
            lambda: torch.empty(wanted, device="cuda:1"), torch.OutOfMemoryError
        )
        mine = (
            "Including non-PyTorch memory, this process has 135.00 MiB memory in use. "
        )
        theirs = f"Process {other.pid} has 199.00 MiB memory in use. "
        assert (mine + theirs if os.getpid() < other.pid else theirs + mine) in said
        assert f"total capacity of {total / 2**30:.2f} GiB of which" in said
        torch.empty(MIB, device="cuda:0")  # the other card is free
        other.kill()  # nobody has waited for it yet: its memory is free all the same
        until = time.monotonic() + 60
        while torch.cuda.mem_get_info(1)[0] < before and time.monotonic() < until:
            time.sleep(0.01)
        assert torch.empty(wanted, device="cuda:1").numel() == wanted


@forks
def test_a_forked_child_leaves_the_figures_alone(monkeypatch):
    monkeypatch.setenv("CUDASIM_FORK", "allow")
    child = os.fork()
    if child == 0:
        os._exit(block(64).numel() == 0)  # no kernel: its threads are not here
    os.waitpid(child, 0)
    assert used() == [0, 0]


def test_leaving_takes_the_figures_and_the_command_away(monkeypatch):
    folder = Path(os.environ[publishing.FOLDER])
    assert folder.is_dir()
    cudasim.disable()
    assert not folder.exists()
    assert not {publishing.FOLDER, publishing.PYTHON} & {*os.environ}
    before = os.environ["PATH"]
    assert str(publishing.PROGRAMS) not in before.split(os.pathsep)
    with cudasim.simulate():
        assert os.environ["PATH"].startswith(str(publishing.PROGRAMS))
    assert os.environ["PATH"] == before
    with cudasim.simulate():
        monkeypatch.setenv("PATH", "/mine")
    assert os.environ["PATH"] == "/mine"  # what the program changed is left to it
    monkeypatch.setenv("PATH", before)


def test_on_windows_the_bare_name_is_replaced():
    started = []
    for args in (
        ["nvidia-smi", "-L"],
        ("nvidia-smi", "-L"),
        ["ls"],
        "nvidia-smi -L",
        [],
    ):
        publishing.start(
            lambda *given, **named: started.append(given[1]), "process", args
        )
    ours = [sys.executable, "-I", "-S", nvidia_smi.__file__, "-L"]
    assert started == [ours, ours, ["ls"], "nvidia-smi -L", []]


def test_windows_has_a_command_that_a_search_finds():
    command = publishing.PROGRAMS / "nvidia-smi.cmd"
    started = command.read_text().splitlines()[-1]
    assert started.startswith(
        f'"%{publishing.PYTHON}%" -I -S "%~dp0'
    ) and started.endswith("%*")
    path = started.partition("%~dp0")[2].partition('"')[0]
    assert (publishing.PROGRAMS / path.replace("\\", "/")).resolve() == Path(
        nvidia_smi.__file__
    )


@pytest.mark.skipif(
    os.name == "nt", reason="Windows does not tell which processes live"
)
def test_what_a_program_left_that_a_signal_ended_is_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    enable = "import cudasim, os; cudasim.enable(); "
    run("-c", enable + "os.kill(os.getpid(), 9)", cwd=tmp_path, fresh=True)
    left = list(tmp_path.glob("cudasim-*"))
    got = run(
        "-c", enable + "print(os.environ['CUDASIM_FIGURES'])", cwd=tmp_path, fresh=True
    )
    assert len(left) == 1 and not left[0].exists() and str(tmp_path) in got.stdout, (
        got.stderr
    )
