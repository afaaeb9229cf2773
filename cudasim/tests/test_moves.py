"""Moves between devices, and what names none; more in `fidelity/programs/moves.py`."""

import pytest
import torch

import cudasim
from fidelity.helpers import raised

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")
MOVES = {
    "to a number": lambda x: x.to(1),
    "to a name": lambda x: x.to("cuda:1", torch.float32, True, True),
    "to a device": lambda x: x.to(G1, dtype=torch.float32, copy=True),
    "to a tensor's": lambda x: x.to(tensor=torch.ones(1, device=G1)),
    "cuda": lambda x: x.cuda(device=G1, non_blocking=True),
    "copy_": lambda x: torch.ones(3, device=G1).copy_(x),
    "as_tensor": lambda x: torch.as_tensor(x, device=G1),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("home", [CPU, G0], ids=str)
def test_every_spelling(move, home):
    x = torch.arange(3.0, device=home)
    moved = move(x)
    assert moved.device == G1
    assert moved.dtype == torch.float32
    assert moved.tolist() == [0, 1, 2]
    assert x.device == home
    moved += 1
    assert x.tolist() == [0, 1, 2]  # independent


# What is refused as PyTorch itself refuses it, with and without a simulation.


@pytest.mark.parametrize("device", [-1, [0], 1.5, torch.ones(1)], ids=str)
def test_what_is_no_device_is_refused_as_by_torch(device):
    x = torch.ones(2)

    def errors():
        return [
            raised(lambda: torch.ones(1, device=device)),
            raised(lambda: torch.ones_like(x, device=device)),
            raised(lambda: torch.tensor([1], device=device)),
            raised(lambda: torch.Generator(device)),
            raised(lambda: torch.UntypedStorage(1, device=device)),
        ]

    simulated = errors()
    cudasim.disable()
    assert simulated == errors()
    assert "no error" not in simulated


def test_arguments_of_moves_are_refused_as_by_torch():
    x = torch.ones(2)

    def errors():
        return [
            raised(lambda: x.to("cpu", "cpu")),
            raised(lambda: x.to("cpu", colour=1)),
            raised(lambda: x.to(other=x)),
            raised(lambda: x.to(-1)),
            raised(lambda: x.cuda(True)),
        ]

    simulated = errors()
    cudasim.disable()
    assert simulated == errors()
    assert "no error" not in simulated
