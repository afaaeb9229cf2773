"""Several GPUs at once: DataParallel, its parts, `torch.cuda.comm`, and bare integers."""

import copy

import pytest
import torch
from torch import nn
from torch.cuda import comm

pytestmark = [pytest.mark.usefixtures("two_gpus"), pytest.mark.filterwarnings("error")]

GPU0, GPU1 = torch.device("cuda", 0), torch.device("cuda", 1)


class Watcher(nn.Module):
    """Says where it computes."""

    def __init__(self, seen):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(2))
        self.seen = seen

    def forward(self, x, factor=1):
        out = self.layer(x)
        devices = x.device, self.layer.weight.device, self.shift.device
        self.seen.append((*devices, len(x), out.dtype))
        return (out + self.shift) * factor


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
def test_data_parallel_halves_the_batch_and_gathers(home):
    seen = []
    model = nn.DataParallel(Watcher(seen).to(0))
    x = torch.rand(5, 4)
    there = (
        x.to(home).clone().requires_grad_(home != "cpu")
    )  # PyTorch warns of its own backward
    out = model(there, factor=2)
    assert out.device == GPU0 and len(out) == 5
    halves = [(*[gpu] * 3, size, torch.float32) for gpu, size in ((GPU0, 3), (GPU1, 2))]
    assert sorted(seen, key=str) == halves
    alone = copy.deepcopy(model.module).cpu()
    expected = alone(x.requires_grad_(), factor=2)
    torch.testing.assert_close(out.cpu(), expected)
    out.sum().backward(), expected.sum().backward()
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert one.grad.device == one.device == GPU0
        torch.testing.assert_close(one.grad.cpu(), other.grad)
    if there.requires_grad:
        torch.testing.assert_close(there.grad.cpu(), x.grad)
    with torch.autocast("cuda"):  # in the replicas' threads too
        assert (
            model(x.to(home)).dtype is torch.float32 and seen[-1][-1] is torch.float16
        )


def test_data_parallel_on_chosen_gpus_with_an_error_and_with_a_layer_that_nobody_uses():
    model = nn.DataParallel(nn.Linear(4, 2).to(1), device_ids=[1, 0], output_device=0)
    assert model(torch.rand(4, 4, device=1)).device == GPU0
    assert (
        nn.DataParallel(nn.Linear(4, 2), device_ids=[1])(torch.rand(4, 4)).device
        == GPU1
    )
    with pytest.raises(
        RuntimeError, match="Caught RuntimeError in replica 0 on device 1"
    ):
        model(torch.rand(4, 3, device=1))
    partly = nn.Linear(4, 2)
    partly.unused = nn.Linear(4, 2)
    nn.DataParallel(partly.to(0))(torch.rand(4, 4, device=0)).sum().backward()
    assert partly.bias.grad.tolist() == [4, 4] and partly.unused.bias.grad.tolist() == [
        0,
        0,
    ]


# `torch.cuda.comm`; what it refuses is in `witnesses.toml` and `test_sources.py`.


def test_copies_on_each_gpu_but_its_own():
    x = torch.arange(3.0, device=1)
    here, there = comm.broadcast(x, [1, 0])
    assert here is x and there.device == GPU0 and there.tolist() == [0, 1, 2]
    out = [torch.empty(3, device=0), torch.empty(3, device=1)]
    assert comm.broadcast(x, out=out)[0] is out[0] and out[0].tolist() == [0, 1, 2]
    tensors = [torch.ones(2, device=0), torch.zeros(3, dtype=torch.long, device=0)]
    own, others = comm.broadcast_coalesced(tensors, [0, 1])
    assert own[0] is tensors[0] and own[1] is tensors[1]
    assert [(t.device, t.dtype) for t in others] == [
        (GPU1, torch.float32),
        (GPU1, torch.long),
    ]


def test_sums_and_chunks_and_gathers():
    x = torch.arange(4.0, device=0)
    ((total,),) = [comm.reduce_add_coalesced([[x], [x.cuda(1)]], 1)]
    assert total.device == GPU1 and total.tolist() == [0, 2, 4, 6]
    assert [c.tolist() for c in comm.scatter(x, [0, 1], [1, 3])] == [[0], [1, 2, 3]]
    out = [torch.empty(2, device=1), torch.empty(2, device=0)]
    assert [c.tolist() for c in comm.scatter(x, out=out)] == [[0, 1], [2, 3]]
    assert comm.gather([x, x.cuda(1)], destination="cpu").device == torch.device("cpu")
    whole = torch.empty(8, device=1)
    assert comm.gather([x, x.cuda(1)], out=whole) is whole and whole.sum().item() == 12


def on_each():
    return [torch.full((4,), gpu + 1.0, device=f"cuda:{gpu}") for gpu in range(2)]


def test_collectives_of_one_process():
    nccl, made = torch.cuda.nccl, on_each()
    nccl.all_reduce(made)
    assert [(each.device, each.tolist()) for each in made] == [
        (GPU0, [3] * 4),
        (GPU1, [3] * 4),
    ]
    made = on_each()
    nccl.broadcast(made, root=1)
    assert made[0].tolist() == [2] * 4
    total = torch.empty(4, device=GPU0)
    nccl.reduce(on_each(), total, op=2)
    assert total.tolist() == [2] * 4  # the greatest
    wide = [torch.empty(8, device=gpu) for gpu in (GPU0, GPU1)]
    nccl.all_gather(on_each(), wide)
    assert wide[1].tolist() == [1] * 4 + [2] * 4 and wide[1].device == GPU1
    narrow = [torch.empty(2, device=gpu) for gpu in (GPU0, GPU1)]
    nccl.reduce_scatter(on_each(), narrow)
    assert narrow[1].tolist() == [3] * 2
    with pytest.raises(RuntimeError, match="inputs must be on unique devices"):
        nccl.all_reduce([total, total])
