"""Memory is asked for before the work is done: the host never makes what the card cannot hold."""

from pathlib import Path

import pytest
import torch
from programs import run

import cudasim
from cudasim.dispatch import foresight, placement

OUT = "out=torch.empty(0, device='cuda')"
# Each makes two GiB of results from little, on a card of which 256 MiB are allowed.
PROGRAMS = {
    "ones": "torch.ones(N, device='cuda')",
    "empty": "torch.empty(N, device='cuda').fill_(1)",
    "arange": "torch.arange(float(N), device='cuda')",
    "eye": "torch.eye(2**15, device='cuda')",
    "new_ones": "x.new_ones(N)",
    "like a tensor of the CPU": "torch.ones_like(torch.ones(1).expand(N), device='cuda')",
    "to": "torch.ones(1).expand(N).cuda()",
    "to another type": "x.expand(N // 2).double()",
    "broadcast": "torch.ones(2**15, 1, device='cuda') + torch.ones(2**14, device='cuda')",
    "diagonal": "torch.diag(torch.ones(2**15, device='cuda'))",
    "product": "torch.ones(2**15, 1, device='cuda') @ torch.ones(1, 2**14, device='cuda')",
    "linear": "nn.Linear(1, 2**14, device='cuda')(torch.ones(2**15, 1, device='cuda'))",
    "repeat": "torch.ones(2**9, device='cuda').repeat(2**20)",
    "cat": "torch.cat([x.expand(N // 2)] * 2)",
    "pad": "F.pad(torch.ones(1, 1, device='cuda'), (0, N))",
    "upsample": "F.interpolate(torch.ones(1, 1, 2, 2, device='cuda'), size=(2**15, 2**14))",
    "embedding": "F.embedding(torch.zeros(2**15, dtype=int, device='cuda'),"
    " torch.ones(2, 2**14, device='cuda'))",
    "index": "torch.ones(1, 2**14, device='cuda')[torch.zeros(2**15, dtype=int, device='cuda')]",
    "convolution": "F.conv1d(torch.ones(2, 1, 2**12, device='cuda'),"
    " torch.ones(2**16, 1, 1, device='cuda'))",
    "distances": "torch.cdist(torch.ones(2**15, 1, device='cuda'),"
    " torch.ones(2**14, 1, device='cuda'))",
    "resize_": "x.resize_(N).fill_(1)",
    "storage": "torch.UntypedStorage(4 * N, device='cuda').fill_(1)",
    "storage, resized": "x.untyped_storage().resize_(4 * N).fill_(1)",
    "dense": "torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=int), [1.0], (N,)).cuda().to_dense()",
    "lists": "torch._foreach_add([x.expand(N)], 1)",
    "sparse product": "torch.eye(2, device='cuda').to_sparse()"
    " @ torch.ones(2, 1, device='cuda').expand(2, N // 2)",
    "blocks": "torch.block_diag(torch.ones(2**15, 1, device='cuda'),"
    " torch.ones(1, 2**14, device='cuda'))",
    "places": "x.expand(N // 4).nonzero()",
    "ones, out": f"torch.ones(N, {OUT})",
    "sum, out": f"torch.add(torch.ones(2**15, 1, device='cuda'), x.expand(2**14), {OUT})",
    "cat, out": f"torch.cat([x.expand(N // 2)] * 2, {OUT})",
    "two results, out": "torch.sort(x.expand(N // 2), out=(torch.empty(0, device='cuda'),"
    " torch.empty(0, dtype=int, device='cuda')))",
}

RUNNER = """
import torch
import torch.nn.functional as F
from torch import nn
import cudasim

cudasim.enable(gpus=2, force=True)
torch.cuda.set_per_process_memory_fraction(256 / (torch.cuda.mem_get_info()[1] / 2**20))
N = 2**29

def peak():
    "Most MiB that this process has held since the last call."
    from pathlib import Path

    held = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
    Path("/proc/self/clear_refs").write_text("5")
    return held

for program in {programs}:
    x, said = torch.ones(1, device="cuda"), "nothing"
    peak()
    before = peak()
    try:
        eval(program) if ";" not in program else exec(program)
    except torch.OutOfMemoryError as error:
        said = str(error).split(".")[0]
    torch.set_default_device(None)
    print(program, "|", said, "|", peak() - before, "|", torch.cuda.memory_allocated() - 512)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each program was told, what it took of the host in MiB, and what it left on the card."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("what the host has held at most is read from Linux's /proc")
    program = RUNNER.format(programs=list(PROGRAMS.values()))
    done = run("-c", program, cwd=tmp_path_factory.mktemp("host"))
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if " | " in line]
    return {program: (said, int(mib), int(left)) for program, said, mib, left in rows}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_card_cannot_hold_is_never_made_on_the_host(answers, name):
    said, taken, left = answers[PROGRAMS[name]]
    assert said == "CUDA out of memory" and taken < 256
    assert left == 0  # what was taken for it is given back


def test_what_is_foreseen_is_what_is_counted(monkeypatch):
    """With foresight of everything the figures are the same as with none."""

    def held():
        with cudasim.simulate(gpus=1, force=True):
            x = torch.rand(200, 300, device="cuda", requires_grad=True)
            y = torch.nn.functional.conv2d(x[None, None], torch.ones(2, 1, 3, 3, device="cuda"))
            y = torch.cat([y.flatten(), (x @ x.T).flatten()]).sort().values.double()
            y.sum().backward()
            kept = torch.arange(5, device="cuda"), torch.eye(3, device="cuda"), x.to("cpu").cuda()
            masked = torch.std_mean(x[x > 0.5])
            assert kept and masked
            return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()

    afterwards = held()
    for module in (foresight, placement):
        monkeypatch.setattr(module, "COUNT", 0)
    assert held() == afterwards
