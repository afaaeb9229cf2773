"""Each replica has its layers on two GPUs."""

import torch
from ranks import assert_equal_everywhere, join, rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel

join()
first = torch.device("cuda", 2 * rank)
second = torch.device("cuda", 2 * rank + 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).to(first)
        self.head = nn.Sequential(nn.Linear(8, 1), nn.BatchNorm1d(1)).to(second)

    def forward(self, x):
        features = self.body(x.to(first)).relu()
        return self.head(features.to(second))


torch.manual_seed(rank)
net = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
weight = net.module.body[0].weight
weight_before = weight.detach().clone()
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 4)).pow(2).mean().backward()
    optimizer.step()

for parameter in net.module.body.parameters():
    assert parameter.device == parameter.grad.device == first
for parameter in net.module.head.parameters():
    assert parameter.device == parameter.grad.device == second
assert_equal_everywhere(net.parameters())
assert not torch.equal(weight, weight_before)
torch.distributed.destroy_process_group()
