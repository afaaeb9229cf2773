"""Where tensors say they live, however they are made, viewed, changed and indexed."""

import warnings

import numpy
import pytest
import torch
from calls import raised
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cudasim.dispatch.tags import is_scratch

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1 = torch.device("cuda:0"), torch.device("cuda:1")
CPU = torch.device("cpu")
early_zeros, early_like = torch.zeros, torch.ones_like  # at import there is no simulation

SPELLINGS = {
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


@pytest.mark.parametrize("name", SPELLINGS)
def test_factories_in_every_spelling(name):
    make, args = getattr(torch, name), SPELLINGS[name]
    plain = make(*args)
    assert plain.device == CPU and not is_scratch(plain)
    for device in ("cuda:1", G1, 1):
        assert make(*args, device=device).device == G1
    assert make(*args, device="cuda").device == G0
    with torch.device("cuda:1"):
        assert make(*args).device == G1
    torch.set_default_device("cuda:1")
    try:
        assert make(*args).device == G1
    finally:
        torch.set_default_device(None)
    assert make(*args).device == CPU


@pytest.mark.parametrize(
    "make",
    [
        lambda x, **to: torch.empty_like(x, **to),
        lambda x, **to: torch.zeros_like(x, **to),
        lambda x, **to: torch.rand_like(x, **to),
        lambda x, **to: torch.randn_like(x, **to),
        lambda x, **to: torch.full_like(x, 3, **to),
        lambda x, **to: torch.randint_like(x, 3, **to),
        lambda x, **to: x.new_zeros(3, **to),
        lambda x, **to: x.new_ones(3, **to),
        lambda x, **to: x.new_full((3,), 1, **to),
        lambda x, **to: x.new_empty(3, **to),
        lambda x, **to: x.new_tensor([1.0], **to),
    ],
)
def test_factories_that_follow_a_tensor(make):
    there, here = torch.ones(2, device=G1), torch.ones(2)
    assert make(there).device == G1
    assert make(there, device="cpu").device == CPU
    assert make(there, device="cuda:0").device == G0
    assert make(here, device="cuda:1").device == G1
    assert make(here).device == CPU


def test_tensors_made_of_tensors_and_arrays():
    there, array = torch.ones(2, device=G1), numpy.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that clone() is recommended
        assert torch.tensor(there).device == G1
        assert torch.tensor(there, device="cpu").device == CPU
    assert torch.as_tensor(there) is there
    assert torch.asarray(there, device="cpu").device == CPU
    assert torch.from_numpy(array).device == CPU
    on_gpu = torch.as_tensor(array, device="cuda")
    array[0] = 7
    assert on_gpu.tolist() == [1, 1]  # a copy: memory of the host is not shared


def test_legacy_types():
    made = torch.cuda.FloatTensor([1, 2])
    assert made.device == G0 and made.tolist() == [1, 2]
    assert torch.cuda.LongTensor(2, 3).shape == (2, 3)
    there = torch.ones(2, device=G1)
    assert there.type() == "torch.cuda.FloatTensor"
    assert there.type("torch.DoubleTensor").device == CPU
    assert there.type(torch.cuda.DoubleTensor).device == G1
    assert there.type(torch.float64).device == G1


def test_functions_taken_before_the_simulation():
    made = early_zeros(2, device="cuda:1")
    assert made.device == G1 and (made + torch.ones(2, device=G1)).device == G1
    assert early_like(made).device == G1 and early_like(made, device="cpu").device == CPU


def test_views_share_and_stay():
    base = torch.arange(12.0, device=G1).reshape(3, 4)
    held = torch.cuda.memory_allocated(1)
    views = [base.t(), base[1], base[:, ::2], base.view(-1), base.unsqueeze(0), base.detach()]
    views += [base.expand(2, 3, 4), base.diagonal(), *base.unbind(), *base.split(1), base.real]
    assert {view.device for view in views} == {G1}
    assert torch.cuda.memory_allocated(1) == held
    base.zero_()
    assert all(view.sum() == 0 for view in views)
    assert torch.view_as_complex(base.view(3, 2, 2)).device == G1


def test_operations_in_place_and_into_a_result():
    x = torch.zeros(3, device=G1)
    x += 1
    x.mul_(torch.full((3,), 2.0, device=G1)).add_(torch.tensor(1.0))
    assert x.tolist() == [3, 3, 3] and x.device == G1
    out = torch.empty(0, device=G1)
    torch.add(x, x, out=out)
    assert out.tolist() == [6, 6, 6] and out.device == G1


def test_indexing():
    x = torch.arange(6.0, device=G1).reshape(2, 3)
    assert x[1, 2].item() == 5 and x[1, 2].device == G1
    for where in (CPU, G1):
        x.copy_(torch.arange(6.0).reshape(2, 3))
        chosen = x[torch.tensor([1, 0], device=where)]
        assert chosen.device == G1 and chosen[:, 0].tolist() == [3, 0]
        assert x[torch.tensor([True, False], device=where)].tolist() == [[0, 1, 2]]
        x[torch.tensor([0], device=where)] = 9
        assert x[0].tolist() == [9, 9, 9]
    x[0] = torch.tensor([1.0, 2.0, 3.0])  # copy_ crosses devices
    assert x[0].tolist() == [1, 2, 3]
    assert x.nonzero().device == torch.where(x > 1)[0].device == x.unique().device == G1


def test_printing():
    assert repr(torch.tensor([1, 2], device=G1)) == "tensor([1, 2], device='cuda:1')"
    assert repr(torch.ones(1, device=G0).double()) == (
        "tensor([1.], device='cuda:0', dtype=torch.float64)"
    )
    assert repr(torch.empty(0, 2, device=G0)) == "tensor([], device='cuda:0', size=(0, 2))"
    parameter = nn.Parameter(torch.ones(1, device=G1))
    assert repr(parameter) == (
        "Parameter containing:\ntensor([1.], device='cuda:1', requires_grad=True)"
    )
    sparse = torch.eye(1, device=G1).to_sparse()
    assert "values=tensor([1.]),\n       device='cuda:1'" in repr(sparse)


def test_what_is_on_the_cpu_in_cuda_too():
    packed = pack_padded_sequence(torch.ones(3, 2, 4, device=G1), torch.tensor([3, 2]))
    assert packed.batch_sizes.device == CPU and packed.data.device == G1
    output, _ = nn.LSTM(4, 5).to(G1)(packed)
    padded, lengths = pad_packed_sequence(output)
    assert padded.device == G1 and lengths.device == CPU
    assert raised(
        lambda: pack_padded_sequence(
            torch.ones(3, 2, 4, device=G1), torch.tensor([3, 2], device=G1)
        )
    ) == ("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:1 Long tensor")


def test_the_old_new_stays_on_its_type_of_device():
    here, there = torch.ones(1), torch.ones(1, device=G0)
    words = "legacy constructor expects device type: {} but device type: {} was passed".format
    with pytest.raises(RuntimeError, match=words("cuda", "cpu")):
        there.new([1], device="cpu")
    with pytest.raises(RuntimeError, match=words("cpu", "cuda")):
        here.new([1], device="cuda")
    assert there.new([1], device="cuda:1").device == G1 and there.new([1]).device == G0
    assert there.new(2, 3).device == G0 and here.new([1]).device == CPU


def test_types_of_the_cpu_disown_tensors_on_a_gpu():
    here, there = torch.ones(1), torch.ones(1, device=G0)
    assert isinstance(here, torch.FloatTensor) and not isinstance(there, torch.FloatTensor)
    assert isinstance(there, torch.cuda.FloatTensor) and not isinstance(here, torch.LongTensor)
    assert not isinstance(there, torch.cuda.LongTensor)
    assert not isinstance(here, torch.cuda.FloatTensor)
    assert torch.FloatTensor in torch._tensor_classes and torch.LongTensor.dtype == torch.int64
    assert there.type(torch.FloatTensor).device == torch.FloatTensor([1, 2]).device == CPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        torch.set_default_tensor_type(torch.DoubleTensor)
        try:
            assert torch.ones(1).dtype == torch.float64
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)


def test_a_number_to_fill_with_may_be_on_any_device():
    two, here = torch.tensor(2.0, device=G0), torch.zeros(2)
    assert here.fill_(two).tolist() == [2, 2] and here.device == CPU
    here[torch.tensor([0])] = two + 1
    here[here == 2] = two + 2
    assert here.tolist() == [3, 4]
    there = torch.zeros(2, device=G1)
    assert there.fill_(two).masked_fill(there > 0, two + 1).tolist() == [3, 3]
    assert torch.fill(there, two).device == G1
