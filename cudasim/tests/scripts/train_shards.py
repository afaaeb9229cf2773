"""A network that FSDP shards over two ranks learns what one process learns with both batches."""

import torch
from ranks import join, rank
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

gpu = join()


def make_net():
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).to(gpu)


def train(net, batch):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(batch).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


torch.manual_seed(0)
whole = make_net()
sharded = make_net()
sharded.load_state_dict(whole.state_dict())
mesh = init_device_mesh("cuda", (2,))
for layer in sharded:
    fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)

batches = torch.randn(2, 3, 4, device=gpu)  # the same in both: a batch for each
train(whole, batches.flatten(0, 1))
train(sharded, batches[rank])

assert sharded[0].weight.to_local().shape == (4, 4)
for shard, parameter in zip(sharded.parameters(), whole.parameters(), strict=True):
    assert shard.device == gpu, shard.device
    assert shard.to_local().device == gpu
    torch.testing.assert_close(shard.detach().full_tensor(), parameter.detach())
torch.distributed.destroy_process_group()
