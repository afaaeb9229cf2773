"""Where tensors say they live, however they are made and viewed.

More of it is asked by `fidelity/programs`, in `factories.py`, `indexing.py`, `printing.py`.
"""

import warnings

import pytest
import torch

from cudasim.dispatch.tags import is_scratch

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")
early_zeros, early_like = torch.zeros, torch.ones_like  # at import there is no simulation

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
    assert plain.device == CPU and not is_scratch(plain)
    assert {make(*args, device=device).device for device in ("cuda:1", G1, 1)} == {G1}
    assert make(*args, device="cuda").device == G0
    with torch.device("cuda:1"):
        assert make(*args).device == G1
    torch.set_default_device("cuda:1")
    try:
        assert make(*args).device == G1
    finally:
        torch.set_default_device(None)
    assert make(*args).device == CPU


FOLLOWING = {
    **{f"{name}_like": () for name in ("empty", "zeros", "rand", "randn")},
    **{f"{name}_like": (3,) for name in ("full", "randint")},
    **{f"new_{name}": (3,) for name in ("zeros", "ones", "empty")},
    **{"new_full": ((3,), 1), "new_tensor": ([1.0],)},
}


@pytest.mark.parametrize(("name", "args"), FOLLOWING.items(), ids=FOLLOWING)
def test_factories_that_follow_a_tensor(name, args):
    make = getattr(torch if name.endswith("_like") else torch.Tensor, name)
    for home, others in ((G1, (CPU, G0)), (CPU, (G1,))):
        tensor = torch.ones(2, device=home)
        assert make(tensor, *args).device == home
        assert [make(tensor, *args, device=other).device for other in others] == [*others]


def test_functions_taken_before_the_simulation():
    made = early_zeros(2, device="cuda:1")
    assert made.device == G1 and (made + torch.ones(2, device=G1)).device == G1
    assert early_like(made).device == G1 and early_like(made, device="cpu").device == CPU


def test_views_share_and_stay():
    base = torch.arange(12.0, device=G1).reshape(3, 4)
    held = torch.cuda.memory_allocated(1)
    views = [base.t(), base[1], base[:, ::2], base.unsqueeze(0), base.detach(), base.real]
    views += [base.expand(2, 3, 4), base.diagonal(), *base.unbind(), *base.split(1)]
    assert {view.device for view in views} == {G1}
    assert torch.cuda.memory_allocated(1) == held
    base.zero_()
    assert all(view.sum() == 0 for view in views)
    assert torch.view_as_complex(base.view(3, 2, 2)).device == G1


def test_types_of_old():
    here, there = torch.ones(1), torch.ones(1, device=G1)
    assert isinstance(here, torch.FloatTensor) and not isinstance(here, torch.LongTensor)
    assert torch.FloatTensor in torch._tensor_classes and torch.LongTensor.dtype == torch.int64
    assert there.type(torch.FloatTensor).device == torch.FloatTensor([1, 2]).device == CPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        torch.set_default_tensor_type(torch.DoubleTensor)
        try:
            assert torch.ones(1).dtype == torch.float64
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
