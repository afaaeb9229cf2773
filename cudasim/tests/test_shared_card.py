"""Two processes on one card: what one takes, the other cannot, and errors say so."""

import os
import subprocess
import sys
import time

import pytest
import torch
from calls import raised

from cudasim.device.types.cuda import CUDA

MIB = 2**20
HOLDER = """
import sys, torch
x = torch.ones(int(sys.argv[1]) * 2**18, device="cuda:1")
print("holds", flush=True)
sys.stdin.readline()
"""

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.fixture
def start():
    """A function that starts a process which holds so many MiB of cuda:1."""
    started = []

    def hold(size):
        command = [sys.executable, "-c", HOLDER, str(size)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "holds\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def test_what_another_process_holds_is_not_free(start):
    total = torch.cuda.mem_get_info(1)[1]
    torch.ones(1, device="cuda:1")
    before = torch.cuda.mem_get_info(1)[0]
    other = start(64)
    assert before - torch.cuda.mem_get_info(1)[0] == 64 * MIB + CUDA.context
    torch.cuda.set_per_process_memory_fraction(1.0, 1)
    wanted = (before - 100 * MIB) // 4
    said = raised(lambda: torch.empty(wanted, device="cuda:1"), torch.OutOfMemoryError)
    mine = "Including non-PyTorch memory, this process has 135.00 MiB memory in use. "
    theirs = f"Process {other.pid} has 199.00 MiB memory in use. "
    assert (mine + theirs if os.getpid() < other.pid else theirs + mine) in said
    assert f"total capacity of {total / 2**30:.2f} GiB of which" in said
    torch.empty(MIB, device="cuda:0")  # the other card is free
    other.kill()  # nobody has waited for it yet: its memory is free all the same
    end = time.monotonic() + 60
    while torch.cuda.mem_get_info(1)[0] < before and time.monotonic() < end:
        time.sleep(0.01)
    assert torch.empty(wanted, device="cuda:1").numel() == wanted
    assert "Process" not in said.replace(theirs, "")
