"""Saving, loading, pickling and copying: devices are kept, files are those of a GPU machine."""

import copy
import io
import pickle
import zipfile

import pytest
import torch
from torch import nn

import cudasim
from fidelity.helpers import places, raised


def checkpoint():
    """A tensor on each GPU, a view of one of them, and a tensor on the CPU."""
    zero, one = torch.arange(4.0, device="cuda:0"), torch.arange(3, device="cuda:1")
    return {"zero": zero, "view": zero[1:], "one": one, "cpu": torch.ones(2)}


def saved(what, zipped=True):
    file = io.BytesIO()
    torch.save(what, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def load(content, **options):
    return torch.load(io.BytesIO(content), **options)


def test_a_file_differs_from_the_cpus_in_its_places_alone(two_gpus):
    on_gpu, on_cpu = (
        zipfile.ZipFile(io.BytesIO(saved({"x": torch.ones(3, device=device)})))
        for device in ("cuda", "cpu")
    )
    said = on_gpu.read("archive/data.pkl")
    # BINUNICODE: the letter X, the length in four bytes, the text
    plain = said.replace(b"X\x06\x00\x00\x00cuda:0", b"X\x03\x00\x00\x00cpu")
    assert plain == on_cpu.read("archive/data.pkl") != said
    assert on_gpu.namelist() == on_cpu.namelist()
    assert on_gpu.read("archive/data/0") == on_cpu.read("archive/data/0")
    legacy = saved(checkpoint(), zipped=False)
    assert all(name in legacy for name in (b"cuda:0", b"cuda:1", b"cpu"))
    assert b"cudasim" not in legacy  # loads without this package


@pytest.mark.parametrize("form", ["zip", "legacy", "mmap"])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "cuda:0 cuda:0 cuda:1 cpu"),
        ("cpu", "cpu cpu cpu cpu"),
        ("cuda", "cuda:0 cuda:0 cuda:0 cuda:0"),
        ("cuda:1", "cuda:1 cuda:1 cuda:1 cuda:1"),
        (torch.device("cuda"), "cuda:0 cuda:0 cuda:0 cuda:0"),
        (torch.device("cuda", 1), "cuda:1 cuda:1 cuda:1 cuda:1"),
        ({"cuda:0": "cuda:1", "cuda:1": "cuda:0"}, "cuda:1 cuda:1 cuda:0 cpu"),
        ({"cuda:1": "cpu", "cpu": "cuda:0"}, "cuda:0 cuda:0 cpu cuda:0"),
        (lambda storage, place: storage, "cpu cpu cpu cpu"),
        (lambda storage, place: storage.cuda(1), "cuda:1 cuda:1 cuda:1 cuda:1"),
        (lambda storage, place: None, "cuda:0 cuda:0 cuda:1 cpu"),
        ("meta", "meta meta meta meta"),
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_map_location(two_gpus, tmp_path, form, weights_only, where, expected):
    (tmp_path / "checkpoint.pt").write_bytes(saved(checkpoint(), form != "legacy"))
    options = {"weights_only": weights_only, "mmap": form == "mmap"}
    loaded = torch.load(tmp_path / "checkpoint.pt", map_location=where, **options)
    assert places(*loaded.values()) == expected.split()
    if where != "meta":
        assert loaded["zero"].tolist() == [0, 1, 2, 3] and loaded["one"].tolist() == [
            0,
            1,
            2,
        ]
        loaded["zero"][1] = 9
        assert loaded["view"].tolist() == [9, 2, 3]  # still a view


def test_loading_counts_memory_once_per_storage_on_the_current_gpu(two_gpus):
    def held():
        return [torch.cuda.memory_allocated(number) for number in (0, 1)]

    content = saved(checkpoint())
    assert held() == [0, 0]
    loaded = load(content)
    assert held() == [512, 512]
    del loaded
    assert held() == [0, 0]
    torch.cuda.set_device(1)
    assert places(*load(content, map_location="cuda").values()) == ["cuda:1"] * 4
    loaded = load(content, map_location="cpu")["zero"]
    (loaded + torch.ones(4)).numpy()  # as any of the CPU
    assert "two devices, cuda:0 and cpu" in raised(
        lambda: loaded + torch.ones(4, device="cuda:0")
    )


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="real GPUs are here")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_without_a_simulation_the_real_error(zipped):
    with cudasim.simulate(2):
        content = saved(checkpoint(), zipped)
    words = "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_ava"
    assert raised(lambda: load(content)).startswith(words)
    assert places(*load(content, map_location="cpu").values()) == ["cpu"] * 4


COPIERS = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "save": lambda value: load(saved(value), weights_only=False),
}


@pytest.mark.parametrize("copier", COPIERS.values(), ids=COPIERS)
def test_copies_keep_class_and_gpu_and_share_nothing(two_gpus, copier):
    whole = torch.ones(3, device="cuda:1")
    for tensor in (whole, whole[1:]):
        other = copier(tensor)
        assert other.device == tensor.device and torch.equal(other, tensor)
        other += 1
        assert tensor.tolist() == [1] * len(tensor)
    net = nn.Sequential(nn.Linear(2, 3).to("cuda:0"), nn.BatchNorm1d(3).to("cuda:1"))
    optimizer = torch.optim.Adam(net.parameters())
    values = torch.ones(4, 2, device="cuda:0")
    net[1](net[0](values).to("cuda:1")).sum().backward()
    optimizer.step()
    again = copier(net)
    assert type(again[0].weight) is nn.Parameter and again[0].weight.requires_grad
    assert places(*again.state_dict().values()) == places(*net.state_dict().values())
    assert torch.equal(again[0](values), net[0](values))
    state = list(copier(optimizer).state.values())[-1]
    where = {name: str(value.device) for name, value in state.items()}
    assert where == {"step": "cpu", "exp_avg": "cuda:1", "exp_avg_sq": "cuda:1"}
