"""Replicas of DistributedDataParallel stay equal, with unused layers and uneven batches too."""

import torch
from ranks import assert_equal_everywhere, join, rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel

gpu = join()


class Net(nn.Module):
    """A network that leaves out one of two layers."""

    def __init__(self):
        super().__init__()
        self.usual = nn.Linear(4, 8)
        self.other = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x, use_other=False):
        layer = self.other if use_other else self.usual
        return self.head(layer(x).relu())


def train_with_unused_layers():
    torch.manual_seed(rank)
    net = DistributedDataParallel(
        Net().to(gpu),
        device_ids=[rank],
        find_unused_parameters=True,
        bucket_cap_mb=0.0001,
        gradient_as_bucket_view=True,
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def add_gradients(use_other):
        x = torch.randn(3, 4, device=gpu)
        net(x, use_other).sum().backward()

    for step in range(2):
        use_other = rank == 1 and step == 1
        with net.no_sync():
            add_gradients(use_other)
        add_gradients(use_other)
        optimizer.step()
        optimizer.zero_grad()

    assert_equal_everywhere(net.parameters())
    for parameter in net.parameters():
        assert parameter.device == gpu


def train_with_more_batches_in_one_rank():
    net = DistributedDataParallel(nn.Linear(4, 1).to(gpu), device_ids=[rank])
    batches = 3 + 2 * rank
    with net.join():
        for _ in range(batches):
            net(torch.ones(2, 4, device=gpu)).sum().backward()


train_with_unused_layers()
train_with_more_batches_in_one_rank()
torch.distributed.destroy_process_group()
