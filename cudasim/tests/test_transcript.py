"""What a machine with two GPUs prints, to the letter (facts of five public documents)."""

import pytest
import torch
from calls import raised
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")


def try_gpu(i=0):
    return torch.device(f"cuda:{i}") if i < torch.cuda.device_count() else torch.device("cpu")


def try_all_gpus():
    return [torch.device(f"cuda:{i}") for i in range(torch.cuda.device_count())]


def test_devices_are_named_and_counted():
    named = torch.device("cpu"), torch.device("cuda"), torch.device("cuda:1")
    assert repr(named) == (
        "(device(type='cpu'), device(type='cuda'), device(type='cuda', index=1))"
    )
    assert torch.cuda.device_count() == 2
    assert repr((try_gpu(), try_gpu(10), try_all_gpus())) == (
        "(device(type='cuda', index=0), device(type='cpu'), "
        "[device(type='cuda', index=0), device(type='cuda', index=1)])"
    )


def test_tensors_print_where_they_live():
    X = torch.ones(2, 3, device=try_gpu())
    assert repr(X) == ("tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='cuda:0')")
    Z = X.cuda(1)
    assert str(Z) == ("tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='cuda:1')")
    assert Z.cuda(1) is Z


def test_adding_across_devices_is_refused_in_cudas_words():
    X = torch.ones(2, 3, device=try_gpu(0))
    Y = torch.rand(2, 3, device=try_gpu(1))
    assert raised(lambda: X + Y) == (
        "Expected all tensors to be on the same device, "
        "but found at least two devices, cuda:0 and cuda:1!"
    )
    assert (Y + X.cuda(1)).device == try_gpu(1)


def test_a_network_computes_where_it_is():
    X = torch.ones(2, 3, device=try_gpu())
    net = nn.Sequential(nn.LazyLinear(1)).to(device=try_gpu())
    answer = repr(net(X))
    assert answer.startswith("tensor([[") and answer.endswith(
        "device='cuda:0', grad_fn=<AddmmBackward0>)"
    )
    assert repr(net[0].weight.data.device) == "device(type='cuda', index=0)"
