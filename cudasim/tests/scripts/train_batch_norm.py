"""SyncBatchNorm over two ranks does what BatchNorm does with the whole batch."""

import copy

import torch
from ranks import join, rank
from torch import nn
from torch.nn.parallel import DistributedDataParallel

gpu = join()
assert_close = torch.testing.assert_close


def synchronized(module):
    return nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(module))


def train_a_network():
    torch.manual_seed(0)
    whole = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 2),
    ).to(gpu)
    part = synchronized(whole)
    net = DistributedDataParallel(part, device_ids=[rank])
    for _ in range(2):
        images = torch.randn(6, 3, 6, 6, device=gpu)
        expected = whole(images)
        out = net(images.chunk(2)[rank])
        assert_close(out, expected.chunk(2)[rank])

        whole.zero_grad()
        expected.pow(2).mean().backward()
        net.zero_grad()
        out.pow(2).mean().backward()
        for parameter, twin in zip(part.parameters(), whole.parameters(), strict=True):
            assert parameter.grad.device == gpu
            assert_close(parameter.grad, twin.grad, rtol=1e-4, atol=1e-5)

    for name in ("running_mean", "running_var", "num_batches_tracked"):
        statistic = getattr(part[1], name)
        assert statistic.device == gpu
        assert_close(statistic, getattr(whole[1], name))

    whole.eval()
    part.eval()
    assert_close(part(images), whole(images))


def normalize_parts_of_different_sizes():
    whole = nn.BatchNorm1d(4).to(gpu)
    part = synchronized(whole)
    batch, weights = torch.randn(2, 7, 4, device=gpu)
    rows = [slice(0, 5), slice(5, 7)][rank]

    of_whole = batch.clone().requires_grad_()
    expected = whole(of_whole)
    (expected * weights).sum().backward()
    of_part = batch[rows].clone().requires_grad_()
    out = part(of_part)
    (out * weights[rows]).sum().backward()

    assert_close(out, expected[rows])
    assert_close(of_part.grad, of_whole.grad[rows])
    assert_close(part.running_var, whole.running_var)


train_a_network()
normalize_parts_of_different_sizes()
torch.distributed.destroy_process_group()
