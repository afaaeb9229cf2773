"""Training with a process for each simulated GPU: values, gradients and devices as on one."""

import pytest
from test_ranks import launch

BEGIN = """
    import copy
    from contextlib import nullcontext
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    here = torch.device("cuda", rank)
    torch.cuda.set_device(here)
    dist.init_process_group("nccl")
    def same_everywhere(tensors):
        for tensor in tensors:
            both = [torch.empty_like(tensor) for _ in range(2)]
            dist.all_gather(both, tensor.detach())
            assert torch.equal(*both)
    close = torch.testing.assert_close
"""
END = """
    told("done", dist.destroy_process_group)
"""

BATCH_NORM = """
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    whole = nn.Sequential(*layers).to(here)
    parts = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
    net = DistributedDataParallel(parts, device_ids=[rank])
    for step in range(2):
        data = torch.randn(6, 3, 6, 6, device=here)
        expected, out = whole(data), net(data.chunk(2)[rank])
        close(out, expected.chunk(2)[rank])
        whole.zero_grad(), net.zero_grad()
        expected.pow(2).mean().backward(), out.pow(2).mean().backward()
        for one, other in zip(whole.parameters(), parts.parameters()):
            assert other.grad.device == here
            close(other.grad, one.grad, rtol=1e-4, atol=1e-5)
    for name in "running_mean", "running_var", "num_batches_tracked":
        assert getattr(parts[1], name).device == here
        close(getattr(parts[1], name), getattr(whole[1], name))
    whole.eval(), parts.eval()
    close(parts(data), whole(data))

    one = nn.BatchNorm1d(4).to(here)  # parts of the batch of different sizes
    other = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(one))
    data, weights = torch.randn(2, 7, 4, device=here)
    mine = slice(0, 5) if rank == 0 else slice(5, 7)
    given, part = data.clone().requires_grad_(), data[mine].clone().requires_grad_()
    expected, out = one(given), other(part)
    close(out, expected[mine])
    (expected * weights).sum().backward(), (out * weights[mine]).sum().backward()
    close(part.grad, given.grad[mine])
    close(other.running_var, one.running_var)
"""

REPLICAS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)
        def forward(self, x, other=False):
            return self.c(torch.relu((self.b if other else self.a)(x)))
    torch.manual_seed(rank)
    net = DistributedDataParallel(Net().to(here), device_ids=[rank], find_unused_parameters=True,
                                  bucket_cap_mb=0.0001, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        with nullcontext() if step % 2 else net.no_sync():
            net(torch.randn(3, 4, device=here), other=rank == 1 and step > 1).sum().backward()
        if step % 2:
            optimizer.step(), optimizer.zero_grad()
    same_everywhere(net.parameters())
    assert all(parameter.device == here for parameter in net.parameters())

    net = DistributedDataParallel(nn.Linear(4, 1).to(here), device_ids=[rank])
    with net.join():
        for _ in range(3 + 2 * rank):
            net(torch.ones(2, 4, device=here)).sum().backward()
"""

TWO_GPUS = """
    first, second = torch.device("cuda", 2 * rank), torch.device("cuda", 2 * rank + 1)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(first)
            self.b = nn.Sequential(nn.Linear(8, 1), nn.BatchNorm1d(1)).to(second)
        def forward(self, x):
            return self.b(self.a(x.to(first)).relu().to(second))
    torch.manual_seed(rank)
    net = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    begun = net.module.a[0].weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).pow(2).mean().backward()
        optimizer.step()
    for parameter, gpu in zip(net.parameters(), [first] * 4 + [second] * 4):
        assert parameter.device == parameter.grad.device == gpu
    same_everywhere(net.parameters())
    assert not torch.equal(net.module.a[0].weight, begun)
"""

SHARDS = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).to(here)
    shards = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).to(here)
    shards.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cuda", (2,))
    for layer in shards:
        fully_shard(layer, mesh=mesh)
    fully_shard(shards, mesh=mesh)
    data = torch.randn(2, 3, 4, device=here)  # the same in both: a batch for each
    for module, batch in (whole, data.flatten(0, 1)), (shards, data[rank]):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(2):
            module(batch).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert shards[0].weight.to_local().shape == (4, 4)
    for one, other in zip(whole.parameters(), shards.parameters()):
        assert other.device == here, other.device
        assert other.to_local().device == here
        torch.testing.assert_close(one.detach(), other.detach().full_tensor())
"""

UNEVEN = """
    parts = [torch.empty(rank + 1, device=here) for _ in range(2)]
    dist.all_to_all(parts, [torch.full((to + 1,), float(rank), device=here) for to in range(2)])
    assert [part.tolist() for part in parts] == [[0.0] * (rank + 1), [1.0] * (rank + 1)]
    part = torch.empty(rank + 1, device=here)
    dist.reduce_scatter(part, [torch.ones(1, device=here), torch.ones(2, device=here)])
    assert part.tolist() == [2.0] * (rank + 1) and part.device == here
    truth = torch.tensor([rank == 1, False], device=here)
    dist.all_reduce(truth)
    assert truth.tolist() == [True, False]
    whole = torch.tensor([3, -4 * rank], device=here)
    dist.all_reduce(whole, op=dist.ReduceOp.AVG)
    assert whole.tolist() == [3, -2]
"""


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        pytest.param(REPLICAS, 2, id="replicas"),
        pytest.param(SHARDS, 2, id="shards"),
        pytest.param(BATCH_NORM, 2, id="batch norm", marks=pytest.mark.full),
        pytest.param(TWO_GPUS, 4, id="two GPUs for a replica", marks=pytest.mark.full),
        pytest.param(UNEVEN, 2, id="parts of different sizes", marks=pytest.mark.full),
    ],
)
def test_two_ranks_do_what_one_process_does(tmp_path, text, gpus):
    results, messages = launch(tmp_path, BEGIN + text + END, gpus=str(gpus))
    assert [result.returncode for result in results] == [0, 0], results
    assert messages == {(0, "done"): "nothing", (1, "done"): "nothing"}
