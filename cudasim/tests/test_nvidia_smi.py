"""`nvidia-smi`, and what a simulation publishes for it."""

import os
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

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
    """Return the exit code of the command and what it prints."""
    command = [*command, *question.split()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return answer.returncode, answer.stdout + answer.stderr


def used():
    """Return the MiB in use on each card, as nvidia-smi tells them."""
    _, text = smi(f"{QUERY} {BARE}")
    return [int(line) for line in text.splitlines()]


def test_the_table_says_that_it_is_simulated():
    code, text = smi()
    assert code == 0
    assert "SIMULATED" in text
    assert text.count("Simulated GPU (T4)") == 2
    assert "No running processes found" in text
    assert "context" not in text  # until a process has one


@pytest.mark.parametrize("card", ["TITAN RTX", "H200"])
def test_the_table_is_straight_and_tells_of_contexts(card):
    assert CONTEXT == 135
    cudasim.disable()
    with cudasim.simulate(card=card, clock="modelled"):
        X = torch.ones(2, 3, device="cuda")
        _, text = smi()
        widths = {len(line) for line in text.splitlines()}
        assert len(widths) == 1
        assert card in text
        assert " 137MiB / " in text
        assert text.count(" 0MiB / ") == 1
        assert f"{os.getpid()}      137MiB" in text
        assert "context of a process on a card is modelled: 135MiB" in text
        del X


def identity(index):
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


def test_memory_in_use_is_the_context_and_what_is_reserved():
    assert used() == [0, 0]
    blocks = [block(20, "cuda:1")]
    assert used() == [0, CONTEXT + 20]
    blocks.append(block(20, "cuda:1"))
    assert used() == [0, CONTEXT + 40]
    blocks.clear()
    assert used() == [0, CONTEXT + 40]  # the cache keeps it
    torch.cuda.empty_cache()
    assert used() == [0, CONTEXT]
    assert torch.cuda.memory_reserved(1) == 0

    # Who asks has a context.
    free, total = torch.cuda.mem_get_info(0)
    assert total - free == CUDA.context
    assert used() == [CONTEXT, CONTEXT]


def answer(question):
    """Return what the command prints when it succeeds."""
    code, text = smi(question)
    assert code == 0, text
    return text


@pytest.fixture
def own_mib():
    """Hold 64 MiB of the first card, and return the MiB that this process uses there."""
    held = block(64)
    yield CONTEXT + 64
    del held


def test_memory_is_queried_with_heads_and_units(own_mib):
    query = "--query-gpu=index,name,memory.total,memory.used,memory.free --format=csv"
    free = 14912 - own_mib
    assert answer(query) == (
        "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n"
        f"0, Simulated GPU (T4), 15360 MiB, {own_mib} MiB, {free} MiB\n"
        "1, Simulated GPU (T4), 15360 MiB, 0 MiB, 14912 MiB\n"
    )


def test_what_is_not_simulated_is_not_available():
    # What GPUtil asks for (getGPUs in GPUtil.py) is a field of every card.
    assert (
        answer(f"-i 1 --query-gpu=gpu_serial,display_mode {BARE}") == "[N/A], [N/A]\n"
    )
    query = "--query-gpu=uuid,driver_version,utilization.gpu,count"
    first = f"{identity(0)}, 580.65.06, [N/A], 2\n"
    second = f"{identity(1)}, 580.65.06, [N/A], 2\n"
    assert answer(f"{query} --format=csv,noheader") == first + second
    query = "-i 1 --query-gpu=temperature.gpu,temperature.memory"
    assert answer(f"{query} {BARE}") == "[N/A], [N/A]\n"


def test_processes_are_queried(own_mib):
    text = answer("--query-compute-apps=pid,used_memory --format=csv")
    assert text == f"pid, used_memory [MiB]\n{os.getpid()}, {own_mib} MiB\n"
    assert answer(f"-i 1 --query-compute-apps=pid {BARE}") == "\n"


def test_cards_are_listed():
    assert answer("-L") == (
        f"GPU 0: Simulated GPU (T4) (UUID: {identity(0)})\n"
        f"GPU 1: Simulated GPU (T4) (UUID: {identity(1)})\n"
    )


def test_cards_are_chosen_in_every_spelling(own_mib):
    assert answer(f"-i 1,0 --query-gpu=index {BARE}") == "1\n0\n"
    first = identity(0)
    for choice in ("--id=0", "-i=0", f"--id {first}"):
        assert answer(f"{choice} {QUERY} {BARE}") == f"{own_mib}\n"


@pytest.mark.parametrize(
    ("question", "code", "message"),
    [
        ("-i 7", 6, "No devices were found\n"),
        (
            "--query-gpu=memory.usage --format=csv",
            2,
            'Field "memory.usage" is not a valid field',
        ),
        (QUERY, 2, "format"),
        ("--reboot", 2, "--reboot"),
    ],
)
def test_bad_questions_are_refused_with_nvidias_exit_codes(question, code, message):
    exit_code, text = smi(question)
    assert exit_code == code
    assert message in text


def test_without_a_simulation_the_command_says_so():
    cudasim.disable()
    code, text = smi(command=[sys.executable, nvidia_smi.__file__])
    assert code == 9
    assert "no simulation is running" in text


@forks
def test_other_ways_of_starting_programs_see_the_figures(tmp_path):
    out = tmp_path / "out"
    command = f"nvidia-smi {QUERY} {BARE} --id=0 > '{out}'"
    blocks = [block(64)]
    assert os.system(command) == 0
    assert out.read_text() == f"{CONTEXT + 64}\n"

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


@pytest.fixture
def holder(two_gpus):
    """A process that holds 64 MiB of the second card, as this one holds 2."""
    torch.ones(1, device="cuda:1")
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "holds\n"
        yield process
        process.kill()


def test_two_processes_share_a_card(holder):
    ours = CONTEXT + 2
    theirs = CONTEXT + 64
    assert used() == [0, ours + theirs]
    _, apps = smi(f"--query-compute-apps=pid,gpu_uuid,used_memory {BARE}")
    card = identity(1)
    assert f"{os.getpid()}, {card}, {ours}\n" in apps
    assert f"{holder.pid}, {card}, {theirs}\n" in apps


def test_what_another_process_holds_is_not_to_be_had(holder):
    free, total = torch.cuda.mem_get_info(1)
    wanted = (free + 100 * MIB) // 4
    torch.cuda.set_per_process_memory_fraction(1.0, 1)
    message = raised(
        lambda: torch.empty(wanted, device="cuda:1"), torch.OutOfMemoryError
    )
    ours = "Including non-PyTorch memory, this process has 135.00 MiB memory in use. "
    theirs = f"Process {holder.pid} has 199.00 MiB memory in use. "
    in_order = ours + theirs if os.getpid() < holder.pid else theirs + ours
    assert in_order in message
    assert f"total capacity of {total / 2**30:.2f} GiB of which" in message
    torch.empty(MIB, device="cuda:0")  # the other card is free

    holder.kill()  # nobody has waited for it yet: its memory is free all the same
    until = time.monotonic() + 60
    while free < 4 * wanted and time.monotonic() < until:
        time.sleep(0.01)
        free, _ = torch.cuda.mem_get_info(1)
    assert torch.empty(wanted, device="cuda:1").numel() == wanted


@forks
def test_a_forked_child_leaves_the_figures_alone(monkeypatch):
    monkeypatch.setenv("CUDASIM_FORK", "allow")
    child = os.fork()
    if child == 0:
        os._exit(block(64).numel() == 0)  # no kernel: its threads are not here
    os.waitpid(child, 0)
    assert used() == [0, 0]


def test_leaving_takes_the_figures_away():
    folder = Path(os.environ[publishing.FOLDER])
    assert folder.is_dir()
    cudasim.disable()
    assert not folder.exists()
    assert publishing.FOLDER not in os.environ
    assert publishing.PYTHON not in os.environ


def test_leaving_takes_the_command_from_the_path(monkeypatch):
    cudasim.disable()
    before = os.environ["PATH"]
    programs = str(publishing.PROGRAMS)
    assert programs not in before.split(os.pathsep)
    with cudasim.simulate():
        assert os.environ["PATH"].startswith(programs)
    assert os.environ["PATH"] == before
    with cudasim.simulate():
        monkeypatch.setenv("PATH", "/mine")
    assert os.environ["PATH"] == "/mine"  # what the program changed is left to it
    monkeypatch.setenv("PATH", before)


OURS = [sys.executable, "-I", "-S", nvidia_smi.__file__, "-L"]


def started(args):
    """Return what is started on Windows in place of a command."""
    original = Mock()
    publishing.start(original, "process", args)
    process, command = original.call_args.args
    assert process == "process"
    return command


def test_on_windows_the_bare_name_is_replaced():
    assert started(["nvidia-smi", "-L"]) == OURS
    assert started(("nvidia-smi", "-L")) == OURS


@pytest.mark.parametrize("args", [["ls"], "nvidia-smi -L", []], ids=str)
def test_on_windows_other_commands_are_left_alone(args):
    assert started(args) == args


def test_windows_has_a_command_that_a_search_finds():
    command = publishing.PROGRAMS / "nvidia-smi.cmd"
    line = command.read_text().splitlines()[-1]
    assert line.startswith(f'"%{publishing.PYTHON}%" -I -S "%~dp0')
    assert line.endswith("%*")
    path = line.partition("%~dp0")[2].partition('"')[0]
    script = publishing.PROGRAMS / path.replace("\\", "/")
    assert script.resolve() == Path(nvidia_smi.__file__)


@pytest.mark.skipif(
    os.name == "nt", reason="Windows does not tell which processes live"
)
def test_what_a_killed_program_left_is_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    enable = "import cudasim, os; cudasim.enable(); "
    killed = enable + "os.kill(os.getpid(), 9)"
    run("-c", killed, cwd=tmp_path, fresh=True)
    (left,) = tmp_path.glob("cudasim-*")
    tell = enable + "print(os.environ['CUDASIM_FIGURES'])"
    got = run("-c", tell, cwd=tmp_path, fresh=True)
    assert str(tmp_path) in got.stdout, got.stderr
    assert not left.exists()
