"""Moves between devices: every spelling, what stays itself, and copies that are independent."""

import pytest
import torch
from torch import nn

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("cuda:1"),
        lambda x: x.to(G1),
        lambda x: x.to(1),
        lambda x: x.to(device="cuda:1"),
        lambda x: x.to(device=1),
        lambda x: x.to("cuda:1", non_blocking=True),
        lambda x: x.to("cuda:1", torch.float32, True, True),
        lambda x: x.to("cuda:1", dtype=torch.float32, copy=True),
        lambda x: x.to(torch.ones(1, device=G1)),
        lambda x: x.to(tensor=torch.ones(1, device=G1)),
        lambda x: x.cuda(1),
        lambda x: x.cuda("cuda:1"),
        lambda x: x.cuda(device=G1, non_blocking=True),
        lambda x: torch.ones(3, device=G1).copy_(x),
        lambda x: torch.as_tensor(x, device=G1),
    ],
)
@pytest.mark.parametrize("home", [CPU, G0])
def test_every_spelling(move, home):
    x = torch.arange(3.0, device=home)
    moved = move(x)
    assert moved.device == G1 and moved.dtype == torch.float32
    assert moved.tolist() == [0, 1, 2] and x.device == home
    moved += 1
    assert x.tolist() == [0, 1, 2]  # independent


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("cuda:1"),
        lambda x: x.to(x),
        lambda x: x.to(torch.float32),
        lambda x: x.to("cuda:1", torch.float32, non_blocking=True),
        lambda x: x.cuda(1),
        lambda x: x.to(),
        lambda x: x.float(),
        lambda x: torch.as_tensor(x, device="cuda:1"),
    ],
)
def test_what_need_not_move_is_itself(move):
    x = torch.ones(3, device=G1)
    assert move(x) is x


def test_plain_cuda_is_the_current_device():
    x = torch.ones(3)
    assert x.cuda().device == x.to("cuda").device == G0
    there = x.cuda()
    assert there.cuda() is there and there.to("cuda") is there
    with torch.cuda.device(1):
        assert x.cuda().device == G1
        assert there.to("cuda").device == G1
        assert there.to(torch.float64).device == G0


def test_type_and_format_change_on_the_way():
    x = torch.ones(1, 2, 2, 2)
    moved = x.to("cuda:1", torch.float16, memory_format=torch.channels_last)
    assert moved.dtype == torch.float16 and moved.device == G1
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert x.cuda(1).half().device == x.cuda(1).to(torch.int8).device == G1


def test_copy_keeps_the_targets_device_and_type():
    here, there = torch.zeros(3), torch.ones(3, device=G0, dtype=torch.float64)
    other = torch.full((3,), 2.0, device=G1)
    assert here.copy_(there).device == CPU and here.tolist() == [1, 1, 1]
    assert there.copy_(other).device == G0 and there.tolist() == [2, 2, 2]
    assert there.dtype == torch.float64
    other[1:] = torch.tensor([5.0, 6.0])
    assert other.tolist() == [2, 5, 6]


@pytest.mark.parametrize("home", [CPU, G0])
def test_what_python_calls_a_type_of_number_is_one(home):
    x = torch.ones(2, device=home)
    moved = x.to(1.5), x.to(float), x.to("cuda", float), x.to(device="cuda", dtype=float)
    assert {each.dtype for each in moved} == {torch.float64}


NO_PLACE_TO_GO = [
    lambda x: x.to([0]),
    lambda x: x.to("cpu", "cpu"),
    lambda x: x.to("cpu", colour=1),
    lambda x: x.to(other=x),
    lambda x: x.to(-1),
    lambda x: x.to("gpu"),
    lambda x: x.cuda("cpu"),
    lambda x: x.cuda(1.5),
    lambda x: x.cuda(True),
    lambda x: torch.ones(1, device=1.5),
    lambda x: torch.ones(1, device=-1),
    lambda x: torch.ones_like(x, device=[0]),
    lambda x: torch.tensor([1], device=torch.ones(1)),
    lambda x: torch.Generator(1.5),
    lambda x: torch.UntypedStorage(1, device=1.5),
]


@pytest.mark.parametrize("call", NO_PLACE_TO_GO)
def test_what_is_no_device_is_refused_as_without_a_simulation(call):
    simulated = refusal(call)
    cudasim.disable()
    assert simulated == refusal(call)


def refusal(call):
    with pytest.raises((RuntimeError, TypeError)) as error:
        call(torch.ones(2))
    return error.type, str(error.value)


def test_a_module_goes_where_a_tensor_is():
    there = torch.ones(1, device=G1, dtype=torch.float64)
    for move in (lambda net: net.to(there), lambda net: net.to(tensor=there)):
        weight = move(nn.Linear(2, 2)).weight
        assert weight.device == G1 and weight.dtype == torch.float64
    assert nn.Linear(2, 2).cuda().to(torch.ones(1)).weight.device == CPU


@pytest.mark.parametrize("there", ["cuda:0", "cuda:1", "cpu"])
@pytest.mark.parametrize("here", ["cpu", "cuda:1"])
def test_type_as_goes_where_the_other_tensor_is(here, there):
    x = torch.ones(2, device=here, requires_grad=True)
    y = x.type_as(torch.ones(3, device=there, dtype=torch.float64))
    assert y.device == torch.device(there) and y.dtype == torch.float64
    y.sum().backward()
    assert x.grad.device == torch.device(here)
    assert x.type_as(x) is x
    with pytest.raises(TypeError):
        x.type_as("cuda")
