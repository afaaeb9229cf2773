"""`torch.device` stays PyTorch's own class, and takes the index of a simulated GPU."""

import pickle

import pytest
import torch
from calls import in_thread, raised

import cudasim
from cudasim.patches import guards
from cudasim.patching import Patches


def test_the_type_of_a_device_is_torch_device(two_gpus):
    for place in ("cpu", "meta", "cuda:1"):
        assert type(torch.ones(1, device=place).device) is torch.device
    assert type(torch.device("cuda")) is type(torch.device(1)) is torch.device
    assert pickle.loads(pickle.dumps(torch.device(1))) == torch.device("cuda:1")


def test_an_index_alone_is_a_gpu(two_gpus):
    assert torch.device(1) == torch.device("cuda", 1) == torch.device(type="cuda", index=1)
    assert in_thread(lambda: torch.device(0)) == torch.device("cuda:0")
    with torch.device(1):
        assert torch.ones(1).device == torch.device("cuda:1")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *(("nope", RuntimeError), ("cuda:x", RuntimeError), (-1, RuntimeError)),
        *((None, TypeError), (1.5, TypeError), (True, TypeError), (("cuda", 0), TypeError)),
    ],
)
def test_what_names_no_device_is_refused_as_before(value, kind):
    before = raised(lambda: torch.device(value), kind)
    with cudasim.simulate(gpus=2):
        assert raised(lambda: torch.device(value), kind) == before


def test_the_class_is_left_as_it_was():
    before = dict(vars(torch.device)), torch.device, raised(lambda: torch.device(0))
    with cudasim.simulate(gpus=2):
        assert vars(torch.device)["__new__"] is not before[0]["__new__"]
    assert (dict(vars(torch.device)), torch.device) == before[:2]
    assert raised(lambda: torch.device(0)) == before[2]
    assert torch.device.__new__(torch.device, "cpu") == torch.device("cpu")


def test_a_python_that_keeps_its_slots_elsewhere_is_told(monkeypatch):
    monkeypatch.setattr(guards, "_slot", lambda cls, number: 1)
    with pytest.raises(RuntimeError, match="no way to make objects of"):
        guards.patch_making(Patches(), torch.device, lambda original: original)
    assert torch.device("cpu").type == "cpu"
