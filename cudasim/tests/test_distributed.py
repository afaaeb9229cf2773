"""`torch.distributed` with a process for each GPU: NCCL is asked for, gloo does the work."""

import pytest
import torch
import torch.distributed as dist
from programs import run, run_ranks, write

HEAD = """
    import os, sys
    import torch, torch.distributed as dist
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    here = torch.device("cuda", rank)
    def check(tensor, values):
        assert tensor.device == here, tensor.device
        assert tensor.tolist() == values, tensor
    def say(text):  # in one piece, whatever the other process says
        os.write(1, f"rank {rank} {text}\\n".encode())
    def mine():
        return torch.arange(4., device=here) + rank
"""

COLLECTIVES = """
    assert dist.is_nccl_available()
    dist.init_process_group("nccl", device_id=here)
    assert dist.get_backend() == "nccl" and dist.get_world_size() == 2
    x = mine(); dist.all_reduce(x); check(x, [1, 3, 5, 7])
    x = mine(); dist.all_reduce(x, op=dist.ReduceOp.AVG); check(x, [.5, 1.5, 2.5, 3.5])
    x = mine(); dist.all_reduce(x, op=dist.ReduceOp.MAX); check(x, [1, 2, 3, 4])
    x = mine(); work = dist.all_reduce(x, async_op=True); work.wait(); check(x, [1, 3, 5, 7])
    x = mine(); dist.broadcast(x, src=1); check(x, [1, 2, 3, 4])
    x = mine(); dist.reduce(x, dst=0); rank or check(x, [1, 3, 5, 7])
    all_of = [torch.empty(4, device=here) for _ in range(2)]
    dist.all_gather(all_of, mine()); check(all_of[0], [0, 1, 2, 3]); check(all_of[1], [1, 2, 3, 4])
    x = torch.empty(8, device=here); dist.all_gather_into_tensor(x, mine())
    check(x, [0, 1, 2, 3, 1, 2, 3, 4])
    x.zero_(); dist.all_gather_into_tensor(x, mine().view(2, 2))  # as accelerate does: NCCL counts
    check(x, [0, 1, 2, 3, 1, 2, 3, 4])
    half = [[1, 3], [5, 7]][rank]
    x = torch.empty(2, device=here); dist.reduce_scatter_tensor(x, mine()); check(x, half)
    x = torch.empty(2, device=here); dist.reduce_scatter(x, list(mine().chunk(2))); check(x, half)
    x = torch.empty(2, device=here)
    dist.reduce_scatter_tensor(x, mine(), op=dist.ReduceOp.AVG)
    check(x, [value / 2 for value in half])
    turned = [[0, 1, 1, 2], [2, 3, 3, 4]][rank]
    x = torch.empty(4, device=here); dist.all_to_all_single(x, mine()); check(x, turned)
    parts = list(torch.empty(4, device=here).chunk(2))
    dist.all_to_all(parts, list(mine().chunk(2)))
    check(parts[0], turned[:2]); check(parts[1], turned[2:])
    x = mine()
    dist.recv(x, src=0) if rank else dist.send(x, dst=1)
    check(x, [0, 1, 2, 3])
    if rank == 0:
        gathered = [torch.empty(4, device=here) for _ in range(2)]
        dist.gather(mine(), gathered); check(gathered[1], [1, 2, 3, 4])
        dist.scatter(x, gathered); check(x, [0, 1, 2, 3])
    else:
        dist.gather(mine()); dist.scatter(x); check(x, [1, 2, 3, 4])
    dist.barrier(); dist.barrier(device_ids=[rank])
    objects = [None, None]; dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    objects = [rank, here]; dist.broadcast_object_list(objects, src=1)
    assert objects == [1, torch.device("cuda:1")]
    group = dist.new_group([0, 1]); assert dist.get_backend(group) == "nccl"
    x = mine(); dist.all_reduce(x, group=group); check(x, [1, 3, 5, 7])
    gloo = dist.new_group([0, 1], backend="gloo"); assert dist.get_backend(gloo) == "gloo"
    x = torch.ones(2); dist.all_reduce(x, group=gloo)
    assert (x.device.type, x.tolist()) == ("cpu", [2, 2])
    try:
        dist.all_reduce(torch.ones(2))
    except RuntimeError as error:
        assert str(error) == "No backend type associated with device type cpu", error
    else:
        raise AssertionError("NCCL takes no tensors on the CPU")
    dist.barrier()
    dist.destroy_process_group()
    say("is done")
"""

TRAINING = """
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("nccl")
    torch.manual_seed(rank)  # other parameters and other data in each process
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).to(here)
    net = DistributedDataParallel(net, device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    begun = net.module[0].weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 4, device=here)).pow(2).mean()
        loss.backward()
        optimizer.step()
    for parameter in net.parameters():
        assert parameter.device == parameter.grad.device == here
        both = [torch.empty_like(parameter) for _ in range(2)]
        dist.all_gather(both, parameter.detach())
        assert torch.equal(*both)
    assert not torch.equal(net.module[0].weight, begun)

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
    dist.destroy_process_group()
    say("is done")
"""


@pytest.mark.parametrize("text", [COLLECTIVES, TRAINING], ids=["collectives", "training"])
def test_two_ranks(tmp_path, text):
    script = write(tmp_path / "worker.py", HEAD + text)
    for got in run_ranks("-m", "cudasim", script, cwd=tmp_path):
        assert got.returncode == 0 and got.stdout.endswith(" is done\n"), got.stderr


ENDING = """
    import time
    dist.init_process_group("nccl")
    held = dist.group.WORLD  # so that the threads of gloo live on
    dist.barrier()
    sys.setswitchinterval(60)  # none of them gets Python's lock unless it is given to them
    for _ in range(20):
        dist.all_reduce(mine(), async_op=True)
    dist.destroy_process_group()
    end = time.perf_counter() + 0.2  # by now they want it, to let go of the tensors
    while time.perf_counter() < end:
        pass
"""


@pytest.mark.full
def test_the_end_of_python_under_torchrun_does_not_meet_a_thread_of_gloo(tmp_path):
    script = write(tmp_path / "worker.py", HEAD + ENDING)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    got = run("-m", "cudasim", *launcher, script, cwd=tmp_path)
    assert got.returncode == 0, got.stderr


@pytest.fixture
def alone(two_gpus):
    """Begins a process group of one: alone(backend, ...)."""
    yield lambda *args, **kwargs: dist.init_process_group(
        *args, store=dist.HashStore(), rank=0, world_size=1, **kwargs
    )
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("asked", "told", "takes_cpu"),
    [
        ("NCCL", "nccl", False),
        ("cuda:nccl", "cuda:nccl", False),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl", True),
        (None, "undefined", False),
    ],
)
def test_backends_and_a_gpu_for_the_process(alone, asked, told, takes_cpu):
    for bad, said in (
        (torch.device("cuda"), "Please use a device_id with index."),
        (2, "device_id cuda:2 is out of range"),
    ):
        with pytest.raises(ValueError, match=said):
            alone("nccl", device_id=bad)
    alone(asked)
    assert dist.get_backend() == told
    x = torch.ones(2, device="cuda:1")
    dist.all_reduce(x)
    assert x.device == torch.device("cuda:1")
    if takes_cpu:
        dist.all_reduce(torch.ones(2))
