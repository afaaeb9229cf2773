"""`torch.device` stays PyTorch's own class, and takes the index of a simulated GPU."""

import pickle

import pytest
import torch
from calls import in_thread

import cudasim
from cudasim.patches import guards
from cudasim.patching import Patches
from fidelity.helpers import raised


def test_an_index_alone_is_a_gpu_and_its_class_is_torchs_own(two_gpus):
    second = torch.device("cuda", 1)
    assert torch.device(1) == torch.device(type="cuda", index=1) == second
    assert in_thread(lambda: torch.device(0)) == torch.device("cuda:0")
    with torch.device(1):
        assert torch.ones(1).device == second
    for device in (
        torch.device(1),
        torch.ones(1, device=1).device,
        torch.ones(1, device="cpu").device,
        torch.ones(1, device="meta").device,
    ):
        assert type(device) is torch.device
        assert pickle.loads(pickle.dumps(device)) == device


@pytest.mark.parametrize("value", ["nope", "cuda:x", -1, None, 1.5, True, ("cuda", 0)])
def test_what_names_no_device_is_refused_as_before(value):
    before = raised(lambda: torch.device(value))
    with cudasim.simulate(gpus=2):
        assert raised(lambda: torch.device(value)) == before != "no error"


def test_the_class_is_left_as_it_was():
    def state():
        error = raised(lambda: torch.device(0))
        return dict(vars(torch.device)), torch.device, error

    before = state()
    make = vars(torch.device)["__new__"]
    with cudasim.simulate(gpus=2):
        assert vars(torch.device)["__new__"] is not make
    assert state() == before
    assert torch.device.__new__(torch.device, "cpu") == torch.device("cpu")


def test_a_python_that_keeps_its_slots_elsewhere_is_told(monkeypatch):
    monkeypatch.setattr(guards, "_read_slot", lambda cls, number: 1)
    with pytest.raises(RuntimeError, match="no way to make objects of"):
        guards.patch_making(Patches(), torch.device, lambda original: original)
    assert torch.device("cpu").type == "cpu"
