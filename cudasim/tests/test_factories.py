"""Factories that are given `out=`, or a tensor to see as another: what PyTorch's own tests ask."""

import functools

import numpy
import pytest
import torch
from calls import raised

from cudasim.dispatch.tags import gpu_of

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("normal", (2.0, 3.0, (4,))),
        ("randint", (9, (4,))),
        *((name, (4,)) for name in ("arange", "ones", "rand", "randn", "randperm")),
    ],
)
def test_a_factory_writes_to_out_where_it_is_or_refuses_it(name, arguments):
    make = functools.partial(getattr(torch, name), *arguments)
    out, mine = torch.empty(0, device="cuda:1"), torch.zeros(4)
    torch.manual_seed(3)
    assert make(out=out, device="cuda") is out
    torch.manual_seed(3)
    made = make(device="cuda:1", dtype=torch.float32)
    assert out.device == made.device == torch.device("cuda:1") and torch.equal(
        out, made
    )
    words = "device type {} does not match device type of out parameter ({})".format
    assert words("cuda", "cpu") in raised(lambda: make(out=mine, device="cuda"))
    assert gpu_of(mine) is None and not mine.any()
    assert words("cpu", "cuda") in raised(lambda: make(out=out, device="cpu"))


def test_a_default_device_does_not_change_where_out_is():
    out, mine = torch.empty(0, device="cuda"), torch.zeros(3)
    with torch.device("cpu"):
        assert torch.randperm(4, out=out, device="cuda").device.type == "cuda"
    with torch.device("cuda"):
        assert torch.asarray(mine, device="cpu") is mine
        assert torch.as_tensor(mine, device="cpu") is mine


@pytest.mark.parametrize("there", [{"device": "cuda"}, {}])
def test_asarray_copies_where_it_is_told_to(there):
    source = torch.arange(3.0, device="cuda")
    assert torch.asarray(source, **there) is source
    copy = torch.asarray(source, copy=True, **there)
    assert copy.device == source.device and copy.data_ptr() != source.data_ptr()
    with pytest.raises(
        ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Int'"
    ):
        torch.asarray(source, copy=False, dtype=torch.int32, **there)


@pytest.mark.parametrize(("make", "name"), [("asarray", "obj"), ("as_tensor", "data")])
def test_what_is_seen_as_a_tensor_may_be_named(make, name):
    make = getattr(torch, make)  # that of the simulation
    source = torch.ones(2, device="cuda:0")
    assert make(**{name: source}, device="cuda:0") is source
    assert gpu_of(make(**{name: source}, device="cpu")) is None
    assert make(**{name: [1, 2]}, device="cuda:1").device == torch.device("cuda:1")


def test_memory_elsewhere_is_not_seen_from_a_gpu():
    aliasing = "can't alias tensor from device '{}' to 'cuda:0'.".format
    for source, said in (
        (torch.ones(2), aliasing("cpu")),
        (numpy.ones(2), aliasing("cpu")),
        (torch.ones(2, device="cuda:1"), aliasing("cuda:1")),
        ([1.0], "can't alias arbitrary sequence into a tensor."),
    ):
        call = functools.partial(torch.asarray, obj=source, device="cuda", copy=False)
        assert raised(call, ValueError) == said
    assert torch.asarray(numpy.ones(2), device="cpu", copy=False).device.type == "cpu"


@pytest.mark.parametrize("there", ["cuda:0", "cuda:1", "cpu"])
def test_asarray_keeps_or_drops_the_history(there):
    history = torch.ones(2, device="cuda:0", requires_grad=True).clone()
    kept = torch.asarray(history, device=there, requires_grad=True)
    dropped = torch.asarray(history, device=there, requires_grad=False)
    assert kept.grad_fn is not None and kept.device == torch.device(there)
    assert dropped.grad_fn is None and not dropped.requires_grad
    assert torch.asarray(
        torch.ones(2, device="cuda:0"), device=there, requires_grad=True
    ).is_leaf


def test_asarray_of_another_device_is_copied_once():
    moved = torch.asarray(torch.ones(1 << 20), device="cuda", copy=True)
    assert torch.cuda.max_memory_allocated() == moved.nbytes


def test_what_is_like_a_tensor_takes_it_by_name():
    source = torch.ones(2, device="cuda:1")
    assert torch.zeros_like(input=source).device == source.device
    assert torch.rand_like(input=source, device="cuda:0").device.index == 0
