"""Moves between devices, and what names none; more in `fidelity/programs/moves.py`."""

import pytest
import torch

import cudasim
from fidelity.helpers import raised

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")
MOVES = [
    lambda x: x.to(1),
    lambda x: x.to("cuda:1", torch.float32, True, True),
    lambda x: x.to(G1, dtype=torch.float32, copy=True),
    lambda x: x.to(tensor=torch.ones(1, device=G1)),
    lambda x: x.cuda(device=G1, non_blocking=True),
    lambda x: torch.ones(3, device=G1).copy_(x),
    lambda x: torch.as_tensor(x, device=G1),
]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("home", [CPU, G0])
def test_every_spelling(move, home):
    x = torch.arange(3.0, device=home)
    moved = move(x)
    assert moved.device == G1
    assert moved.dtype == torch.float32
    assert moved.tolist() == [0, 1, 2]
    assert x.device == home
    moved += 1
    assert x.tolist() == [0, 1, 2]  # independent


NO_PLACE_TO_GO = [
    lambda x: x.to("cpu", "cpu"),
    lambda x: x.to("cpu", colour=1),
    lambda x: x.to(other=x),
    lambda x: x.to(-1),
    lambda x: x.cuda(True),
    lambda x: torch.ones(1, device=-1),
    lambda x: torch.ones_like(x, device=[0]),
    lambda x: torch.tensor([1], device=x),
    lambda x: torch.Generator(1.5),
    lambda x: torch.UntypedStorage(1, device=1.5),
]


@pytest.mark.parametrize("call", NO_PLACE_TO_GO)
def test_what_is_no_device_is_refused_as_by_torch(call):
    x = torch.ones(2)
    simulated = raised(lambda: call(x))
    cudasim.disable()
    assert simulated == raised(lambda: call(x)) != "no error"
