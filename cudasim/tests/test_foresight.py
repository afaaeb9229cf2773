"""Memory is asked for before the work is done: the host never makes what the card cannot hold."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from programs import run

import cudasim
from cudasim.dispatch import foresight, placement

# Each makes two GiB of results from little, on a card of which 256 MiB are allowed.
PROGRAMS = {
    "ones": "ones(N)",
    "empty": "torch.empty(N, device='cuda').fill_(1)",
    "arange": "torch.arange(float(N), device='cuda')",
    "eye": "torch.eye(2**15, device='cuda')",
    "new_ones": "x.new_ones(N)",
    "like a tensor of the CPU": "torch.ones_like(torch.ones(1).expand(N), device='cuda')",
    "to": "torch.ones(1).expand(N).cuda()",
    "to another type": "x.expand(N // 2).double()",
    "broadcast": "ones(2**15, 1) + ones(2**14)",
    "diagonal": "torch.diag(ones(2**15))",
    "product": "ones(2**15, 1) @ ones(1, 2**14)",
    "linear": "nn.Linear(1, 2**14, device='cuda')(ones(2**15, 1))",
    "repeat": "ones(2**9).repeat(2**20)",
    "cat": "torch.cat([x.expand(N // 2)] * 2)",
    "pad": "F.pad(ones(1, 1), (0, N))",
    "upsample": "F.interpolate(ones(1, 1, 2, 2), size=(2**15, 2**14))",
    "pooling": "F.adaptive_max_pool2d(ones(1, 1, 2, 2), (2**15, 2**14))",
    "embedding": "F.embedding(ones(2**15).int(), ones(2, 2**14))",
    "index": "ones(1, 2**14)[ones(2**15).long() - 1]",
    "convolution": "F.conv1d(ones(2, 1, 2**12), ones(2**16, 1, 1))",
    "distances": "torch.cdist(ones(2**15, 1), ones(2**14, 1))",
    "resize_": "x.resize_(N).fill_(1)",
    "storage": "torch.UntypedStorage(4 * N, device='cuda').fill_(1)",
    "storage, resized": "x.untyped_storage().resize_(4 * N).fill_(1)",
    "dense": "torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=int), [1.0], (N,)).cuda().to_dense()",
    "lists": "torch._foreach_add([x.expand(N)], 1)",
    "sparse product": "torch.eye(2, device='cuda').to_sparse() @ ones(2, 1).expand(2, N // 2)",
    "blocks": "torch.block_diag(ones(2**15, 1), ones(1, 2**14))",
    "places": "x.expand(N // 4).nonzero()",
    "ones, out": "torch.ones(N, out=empty())",
    "sum, out": "torch.add(ones(2**15, 1), x.expand(2**14), out=empty())",
    "cat, out": "torch.cat([x.expand(N // 2)] * 2, out=empty())",
    "two results, out": "torch.sort(x.expand(N // 2), out=(empty(), empty().long()))",
}
RUNNER = """
from functools import partial
from pathlib import Path
from typing import NamedTuple
import torch
import torch.nn.functional as F
from torch import nn
import cudasim

cudasim.enable(gpus=1, force=True)
torch.cuda.set_per_process_memory_fraction(256 / (torch.cuda.mem_get_info()[1] / 2**20))
N, ones, empty = 2**29, partial(torch.ones, device="cuda"), partial(torch.empty, 0, device="cuda")

def peak():
    "Most MiB that this process has held since the last call."
    held = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
    Path("/proc/self/clear_refs").write_text("5")
    return held

for program in {programs}:
    x, said = ones(1), "nothing"
    peak()
    before = peak()
    try:
        eval(program)
    except torch.OutOfMemoryError as error:
        said = str(error).split(".")[0]
    print(program, "|", said, "|", peak() - before, "|", torch.cuda.memory_allocated() - 512)
"""


class Answer(NamedTuple):
    """What a program was told, what it took of the host in MiB, what it left on the card."""

    error: str
    host_mib: int
    left: int


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answer to each program."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("what the host has held at most is read from Linux's /proc")
    program = RUNNER.format(programs=list(PROGRAMS.values()))
    done = run("-c", program, cwd=tmp_path_factory.mktemp("host"))
    assert done.returncode == 0, done.stderr
    answers = {}
    for line in done.stdout.splitlines():
        if " | " in line:
            program, error, mib, left = line.split(" | ")
            answers[program] = Answer(error, int(mib), int(left))
    return answers


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_card_cannot_hold_is_never_made_on_the_host(answers, name):
    answer = answers[PROGRAMS[name]]
    assert answer.error == "CUDA out of memory"
    assert answer.host_mib < 256
    assert answer.left == 0  # what was taken for it is given back


def bytes_of_a_program():
    """Return the bytes that a program holds, and the most that it has held."""
    with cudasim.simulate(gpus=1, force=True):
        x = torch.rand(200, 300, device="cuda", requires_grad=True)
        weight = torch.ones(2, 1, 3, 3, device="cuda")
        y = torch.nn.functional.conv2d(x[None, None], weight)
        y = torch.cat([y.flatten(), (x @ x.T).flatten()]).sort().values.double()
        y.sum().backward()
        made = torch.arange(5, device="cuda"), torch.eye(3, device="cuda")
        moved = x.to("cpu").cuda()
        masked = torch.std_mean(x[x > 0.5])
        held = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        del made, moved, masked
        return held


def test_what_is_foreseen_is_what_is_counted(monkeypatch):
    """With foresight of everything the figures are the same as with none."""
    afterwards = bytes_of_a_program()
    for module in (foresight, placement):
        monkeypatch.setattr(module, "LARGE_RESULT", 0)
    assert bytes_of_a_program() == afterwards
