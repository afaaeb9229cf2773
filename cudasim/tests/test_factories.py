"""Factories that are given `out=`, or a tensor to see as another: what PyTorch's own tests ask."""

import functools

import numpy
import pytest
import torch
from calls import raised

from cudasim.dispatch.tags import gpu_of

pytestmark = pytest.mark.usefixtures("two_gpus")


FACTORIES = [
    ("normal", (2.0, 3.0, (4,))),
    ("randint", (9, (4,))),
    ("arange", (4,)),
    ("ones", (4,)),
    ("rand", (4,)),
    ("randn", (4,)),
    ("randperm", (4,)),
]


@pytest.mark.parametrize(("name", "arguments"), FACTORIES)
def test_a_factory_writes_to_out_where_it_is(name, arguments):
    make = functools.partial(getattr(torch, name), *arguments)
    out = torch.empty(0, device="cuda:1")
    torch.manual_seed(3)
    assert make(out=out, device="cuda") is out
    torch.manual_seed(3)
    expected = make(device="cuda:1", dtype=torch.float32)
    assert out.device == expected.device == torch.device("cuda:1")
    assert torch.equal(out, expected)


@pytest.mark.parametrize(("name", "arguments"), FACTORIES)
def test_a_factory_refuses_out_on_another_type_of_device(name, arguments):
    make = functools.partial(getattr(torch, name), *arguments)
    on_gpu = torch.empty(0, device="cuda:1")
    error = raised(lambda: make(out=on_gpu, device="cpu"))
    assert "device type cpu does not match device type of out parameter (cuda)" in error

    on_cpu = torch.zeros(4)
    error = raised(lambda: make(out=on_cpu, device="cuda"))
    assert "device type cuda does not match device type of out parameter (cpu)" in error
    assert gpu_of(on_cpu) is None
    assert not on_cpu.any()


def test_a_default_device_does_not_change_where_out_is():
    out = torch.empty(0, device="cuda")
    with torch.device("cpu"):
        torch.randperm(4, out=out, device="cuda")
    assert out.device.type == "cuda"

    on_cpu = torch.zeros(3)
    with torch.device("cuda"):
        assert torch.asarray(on_cpu, device="cpu") is on_cpu
        assert torch.as_tensor(on_cpu, device="cpu") is on_cpu


@pytest.mark.parametrize("place", [{"device": "cuda"}, {}])
def test_asarray_copies_where_it_is_told_to(place):
    source = torch.arange(3.0, device="cuda")
    assert torch.asarray(source, **place) is source
    copy = torch.asarray(source, copy=True, **place)
    assert copy.device == source.device
    assert copy.data_ptr() != source.data_ptr()
    words = "can't alias tensor with dtype 'Float' into dtype 'Int'"
    with pytest.raises(ValueError, match=words):
        torch.asarray(source, copy=False, dtype=torch.int32, **place)


@pytest.mark.parametrize(("make", "name"), [("asarray", "obj"), ("as_tensor", "data")])
def test_what_is_seen_as_a_tensor_may_be_named(make, name):
    make = getattr(torch, make)  # that of the simulation
    source = torch.ones(2, device="cuda:0")
    assert make(**{name: source}, device="cuda:0") is source
    assert gpu_of(make(**{name: source}, device="cpu")) is None
    assert make(**{name: [1, 2]}, device="cuda:1").device == torch.device("cuda:1")


def test_memory_elsewhere_is_not_seen_from_a_gpu():

    def refusal(source):
        call = functools.partial(torch.asarray, obj=source, device="cuda", copy=False)
        return raised(call, ValueError)

    array = numpy.ones(2)
    of_cpu = "can't alias tensor from device 'cpu' to 'cuda:0'."
    assert refusal(torch.ones(2)) == of_cpu
    assert refusal(array) == of_cpu
    elsewhere = torch.ones(2, device="cuda:1")
    error = "can't alias tensor from device 'cuda:1' to 'cuda:0'."
    assert refusal(elsewhere) == error
    assert refusal([1.0]) == "can't alias arbitrary sequence into a tensor."

    on_cpu = torch.asarray(array, device="cpu", copy=False)
    assert on_cpu.device.type == "cpu"


@pytest.mark.parametrize("place", ["cuda:0", "cuda:1", "cpu"])
def test_asarray_keeps_or_drops_the_history(place):
    leaf = torch.ones(2, device="cuda:0", requires_grad=True)
    computed = leaf.clone()
    kept = torch.asarray(computed, device=place, requires_grad=True)
    assert kept.grad_fn is not None
    assert kept.device == torch.device(place)
    dropped = torch.asarray(computed, device=place, requires_grad=False)
    assert dropped.grad_fn is None
    assert not dropped.requires_grad
    assert torch.asarray(leaf.detach(), device=place, requires_grad=True).is_leaf


def test_asarray_of_another_device_is_copied_once():
    moved = torch.asarray(torch.ones(1 << 20), device="cuda", copy=True)
    assert torch.cuda.max_memory_allocated() == moved.nbytes


def test_what_is_like_a_tensor_takes_it_by_name():
    source = torch.ones(2, device="cuda:1")
    assert torch.zeros_like(input=source).device == source.device
    assert torch.rand_like(input=source, device="cuda:0").device.index == 0
