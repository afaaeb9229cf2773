"""Several GPUs at once: DataParallel, its parts, `torch.cuda.comm`, and bare integers."""

import copy

import pytest
import torch
from torch import nn
from torch.cuda import comm

pytestmark = [pytest.mark.usefixtures("two_gpus"), pytest.mark.filterwarnings("error")]

GPU0, GPU1 = torch.device("cuda", 0), torch.device("cuda", 1)


class Watcher(nn.Module):
    """A layer that notes where it computes."""

    def __init__(self, calls):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("shift", torch.ones(2))
        self.calls = calls

    def forward(self, x, factor=1):
        out = self.layer(x)
        devices = {x.device, self.layer.weight.device, self.shift.device}
        self.calls.append((devices, len(x), out.dtype))
        return (out + self.shift) * factor


@pytest.fixture
def calls():
    return []


@pytest.fixture
def watcher(calls):
    return nn.DataParallel(Watcher(calls).to(0))


@pytest.mark.parametrize("home", ["cpu", "cuda:0"])
def test_data_parallel_halves_the_batch_and_gathers(watcher, calls, home):
    on_cpu = copy.deepcopy(watcher.module).cpu()
    calls.clear()
    x = torch.rand(5, 4)
    batch = x.to(home).clone()
    if home != "cpu":  # there PyTorch warns of its own backward
        batch.requires_grad_()
    out = watcher(batch, factor=2)
    assert out.device == GPU0
    assert len(out) == 5
    halves = sorted(calls, key=str)
    assert halves == [({GPU0}, 3, torch.float32), ({GPU1}, 2, torch.float32)]

    expected = on_cpu(x.requires_grad_(), factor=2)
    torch.testing.assert_close(out.cpu(), expected)
    out.sum().backward()
    expected.sum().backward()
    for parameter, twin in zip(watcher.parameters(), on_cpu.parameters(), strict=True):
        assert parameter.grad.device == parameter.device == GPU0
        torch.testing.assert_close(parameter.grad.cpu(), twin.grad)
    if batch.requires_grad:
        torch.testing.assert_close(batch.grad.cpu(), x.grad)


def test_autocast_holds_in_the_threads_of_replicas(watcher, calls):
    with torch.autocast("cuda"):
        out = watcher(torch.rand(5, 4, device="cuda:0"))
    assert out.dtype is torch.float32
    for _, _, dtype in calls:
        assert dtype is torch.float16


def test_data_parallel_on_chosen_gpus():
    layer = nn.Linear(4, 2).to(1)
    model = nn.DataParallel(layer, device_ids=[1, 0], output_device=0)
    batch = torch.rand(4, 4, device=1)
    assert model(batch).device == GPU0

    of_wrong_width = torch.rand(4, 3, device=1)
    words = "Caught RuntimeError in replica 0 on device 1"
    with pytest.raises(RuntimeError, match=words):
        model(of_wrong_width)


def test_data_parallel_on_one_gpu():
    model = nn.DataParallel(nn.Linear(4, 2), device_ids=[1])
    assert model(torch.rand(4, 4)).device == GPU1


def test_a_layer_that_no_replica_uses_has_a_gradient_of_zeros():
    net = nn.Linear(4, 2)
    net.unused = nn.Linear(4, 2)
    model = nn.DataParallel(net.to(0))
    batch = torch.rand(4, 4, device=0)
    model(batch).sum().backward()
    assert net.bias.grad.tolist() == [4, 4]
    assert net.unused.bias.grad.tolist() == [0, 0]


# `torch.cuda.comm`; what it refuses is in `witnesses.toml` and `test_sources.py`.


def test_a_broadcast_copies_to_each_gpu_but_its_own():
    x = torch.arange(3.0, device=1)
    own, copied = comm.broadcast(x, [1, 0])
    assert own is x
    assert copied.device == GPU0
    assert copied.tolist() == [0, 1, 2]


def test_a_broadcast_fills_the_tensors_that_are_given():
    x = torch.arange(3.0, device=1)
    out = [torch.empty(3, device=0), torch.empty(3, device=1)]
    first, _ = comm.broadcast(x, out=out)
    assert first is out[0]
    assert first.tolist() == [0, 1, 2]


def test_a_coalesced_broadcast_keeps_each_type():
    tensors = [torch.ones(2, device=0), torch.zeros(3, dtype=torch.long, device=0)]
    own, (floats, integers) = comm.broadcast_coalesced(tensors, [0, 1])
    assert own[0] is tensors[0]
    assert own[1] is tensors[1]
    assert (floats.device, floats.dtype) == (GPU1, torch.float32)
    assert (integers.device, integers.dtype) == (GPU1, torch.long)


def values(tensors):
    return [tensor.tolist() for tensor in tensors]


def test_a_coalesced_sum_is_on_the_gpu_that_is_named():
    x = torch.arange(4.0, device=0)
    on_second = x.cuda(1)
    (total,) = comm.reduce_add_coalesced([[x], [on_second]], 1)
    assert total.device == GPU1
    assert total.tolist() == [0, 2, 4, 6]


def test_a_tensor_is_scattered_in_chunks():
    x = torch.arange(4.0, device=0)
    chunks = comm.scatter(x, [0, 1], [1, 3])
    assert values(chunks) == [[0], [1, 2, 3]]
    out = [torch.empty(2, device=1), torch.empty(2, device=0)]
    chunks = comm.scatter(x, out=out)
    assert values(chunks) == [[0, 1], [2, 3]]


def test_tensors_of_two_gpus_are_gathered():
    x = torch.arange(4.0, device=0)
    parts = [x, x.cuda(1)]
    on_host = comm.gather(parts, destination="cpu")
    assert on_host.device == torch.device("cpu")
    whole = torch.empty(8, device=1)
    assert comm.gather(parts, out=whole) is whole
    assert whole.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def on_each():
    return [torch.full((4,), 1.0, device=GPU0), torch.full((4,), 2.0, device=GPU1)]


def empty_on_each(size):
    return [torch.empty(size, device=GPU0), torch.empty(size, device=GPU1)]


def test_collectives_of_one_process():
    nccl = torch.cuda.nccl
    tensors = on_each()
    nccl.all_reduce(tensors)
    assert values(tensors) == [[3] * 4, [3] * 4]
    assert [tensor.device for tensor in tensors] == [GPU0, GPU1]

    tensors = on_each()
    nccl.broadcast(tensors, root=1)
    assert tensors[0].tolist() == [2] * 4
    greatest = torch.empty(4, device=GPU0)
    nccl.reduce(on_each(), greatest, op=2)
    assert greatest.tolist() == [2] * 4

    wide = empty_on_each(8)
    nccl.all_gather(on_each(), wide)
    assert wide[1].tolist() == [1] * 4 + [2] * 4
    assert wide[1].device == GPU1
    narrow = empty_on_each(2)
    nccl.reduce_scatter(on_each(), narrow)
    assert narrow[1].tolist() == [3] * 2
    with pytest.raises(RuntimeError, match="inputs must be on unique devices"):
        nccl.all_reduce([greatest, greatest])
