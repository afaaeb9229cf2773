"""Factories that are given `out=`, or a tensor to see as another: what PyTorch's own tests ask."""

import numpy
import pytest
import torch

from cudasim.dispatch.tags import gpu_of

pytestmark = pytest.mark.usefixtures("two_gpus")

MAKERS = {
    "arange": lambda **options: torch.arange(4, **options),
    "normal": lambda **options: torch.normal(2.0, 3.0, (4,), **options),
    "ones": lambda **options: torch.ones(4, **options),
    "rand": lambda **options: torch.rand(4, **options),
    "randint": lambda **options: torch.randint(9, (4,), **options),
    "randn": lambda **options: torch.randn(4, **options),
    "randperm": lambda **options: torch.randperm(4, **options),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_factory_writes_to_out_where_it_is(name):
    out = torch.empty(0, device="cuda:1")
    torch.manual_seed(3)
    assert MAKERS[name](out=out, device="cuda") is out
    torch.manual_seed(3)
    made = MAKERS[name](device="cuda:1", dtype=torch.float32)
    assert out.device == made.device == torch.device("cuda:1")
    assert torch.equal(out, made)


@pytest.mark.parametrize("name", MAKERS)
def test_a_factory_refuses_out_on_another_type_of_device(name):
    mine, there = torch.zeros(4), torch.zeros(4, device="cuda")
    text = "device type cuda does not match device type of out parameter \\(cpu\\)"
    with pytest.raises(RuntimeError, match=text):
        MAKERS[name](out=mine, device="cuda")
    assert gpu_of(mine) is None and not mine.any()
    text = "device type cpu does not match device type of out parameter \\(cuda\\)"
    with pytest.raises(RuntimeError, match=text):
        MAKERS[name](out=there, device="cpu")


def test_a_default_device_does_not_change_where_out_is():
    out = torch.empty(0, device="cuda")
    with torch.device("cpu"):
        assert torch.randperm(4, out=out, device="cuda").device.type == "cuda"
    mine = torch.zeros(3)
    with torch.device("cuda"):
        assert torch.asarray(mine, device="cpu") is mine
        assert torch.as_tensor(mine, device="cpu") is mine


@pytest.mark.parametrize("there", [{"device": "cuda"}, {}])
def test_asarray_copies_where_it_is_told_to(there):
    source = torch.arange(3.0, device="cuda")
    assert torch.asarray(source, **there) is source
    copy = torch.asarray(source, copy=True, **there)
    assert copy.device == source.device and copy.data_ptr() != source.data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Int'"):
        torch.asarray(source, copy=False, dtype=torch.int32, **there)


@pytest.mark.parametrize("make", [torch.asarray, torch.as_tensor])
def test_what_is_seen_as_a_tensor_may_be_named(make):
    name = {"asarray": "obj", "as_tensor": "data"}[make.__name__]
    make = getattr(torch, make.__name__)  # that of the simulation
    source = torch.ones(2, device="cuda:0")
    assert make(**{name: source}, device="cuda:0") is source
    assert gpu_of(make(**{name: source}, device="cpu")) is None
    assert make(**{name: [1, 2]}, device="cuda:1").device == torch.device("cuda:1")


def test_memory_of_the_host_is_not_seen_from_a_gpu():
    for source in (torch.ones(2), numpy.ones(2)):
        with pytest.raises(ValueError, match="can't alias tensor from device 'cpu' to 'cuda:0'"):
            torch.asarray(obj=source, device="cuda", copy=False)
        assert torch.asarray(source, device="cpu", copy=False).device.type == "cpu"
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        torch.asarray([1.0], device="cuda", copy=False)


@pytest.mark.parametrize("there", ["cuda:0", "cuda:1", "cpu"])
def test_asarray_keeps_or_drops_the_history(there):
    history = torch.ones(2, device="cuda:0", requires_grad=True).clone()
    kept = torch.asarray(history, device=there, requires_grad=True)
    dropped = torch.asarray(history, device=there, requires_grad=False)
    assert kept.grad_fn is not None and kept.device == torch.device(there)
    assert dropped.grad_fn is None and not dropped.requires_grad
    assert torch.asarray(torch.ones(2, device="cuda:0"), device=there, requires_grad=True).is_leaf


def test_asarray_of_another_device_is_copied_once():
    source = torch.ones(1 << 20)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    moved = torch.asarray(source, device="cuda", copy=True)
    assert moved.device.type == "cuda"
    assert torch.cuda.max_memory_allocated() - before == 4 << 20
