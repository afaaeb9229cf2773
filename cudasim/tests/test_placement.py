"""Where tensors say they live, however they are made and viewed.

There is more in `test_sources.py`, and in `mixing.py` and `moves.py` of `fidelity/programs`.
"""

import pytest
import torch

from cudasim.dispatch.tags import is_scratch

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")
# Taken as they are before a simulation.
early_zeros = torch.zeros
early_like = torch.ones_like

FACTORIES = {
    "empty": (2, 3),
    "zeros": (2, 3),
    "full": ((2,), True),
    "randint": (5, (2,)),
    "randperm": (5,),
    "arange": (5,),
    "linspace": (0, 1, 3),
    "eye": (2,),
    "hann_window": (4,),
    "tensor": ([1.0, 2.0],),
    "as_tensor": ([1.0, 2.0],),
    "asarray": ([1.0, 2.0],),
    "scalar_tensor": (1.0,),
    "empty_strided": ((2, 2), (2, 1)),
}


@pytest.mark.parametrize(("name", "args"), FACTORIES.items(), ids=FACTORIES)
def test_factories_in_every_spelling(name, args):
    make = getattr(torch, name)
    plain = make(*args)
    assert plain.device == CPU
    assert not is_scratch(plain)
    assert make(*args, device="cuda").device == G0
    for device in ("cuda:1", G1, 1):
        assert make(*args, device=device).device == G1
    with torch.device("cuda:1"):
        assert make(*args).device == G1
    torch.set_default_device("cuda:1")
    try:
        assert make(*args).device == G1
    finally:
        torch.set_default_device(None)
    assert make(*args).device == CPU


def test_functions_taken_before_the_simulation():
    x = early_zeros(2, device="cuda:1")
    assert x.device == G1
    assert (x + torch.ones(2, device=G1)).device == G1
    assert early_like(x).device == G1
    assert early_like(x, device="cpu").device == CPU


def test_types_of_old():
    host, on_gpu = torch.ones(1), torch.ones(1, device=G1)
    assert isinstance(host, torch.FloatTensor)
    assert not isinstance(host, torch.LongTensor)
    assert torch.FloatTensor in torch._tensor_classes
    assert torch.LongTensor.dtype == torch.int64
    assert torch.FloatTensor([1, 2]).device == CPU
    assert on_gpu.type(torch.FloatTensor).device == CPU


# Of those that compare the devices of all their arguments (`native_functions.yaml`).
NEXT_TO_A_NUMBER = {
    "other": lambda x, number: torch.equal(x, number),
    "max": lambda x, number: x.clamp(max=number),
    "min": lambda x, number: x.clamp_min(number),
}


@pytest.mark.parametrize("name", NEXT_TO_A_NUMBER)
def test_some_kernels_refuse_a_number_that_is_on_the_host(name):
    x = torch.ones(3, device=G0)
    with pytest.raises(RuntimeError, match=f"but got {name} is on cpu"):
        NEXT_TO_A_NUMBER[name](x, torch.tensor(1.0))
    assert (x * torch.tensor(2.0)).device == G0
    assert torch.maximum(x, torch.tensor(2.0)).device == G0
