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


def saved(content, zipped=True):
    """Return the bytes of a file."""
    file = io.BytesIO()
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def load(content, **options):
    return torch.load(io.BytesIO(content), **options)


def archive(device):
    content = saved({"x": torch.ones(3, device=device)})
    return zipfile.ZipFile(io.BytesIO(content))


def test_a_file_differs_from_the_cpus_in_its_places_alone(two_gpus):
    of_gpu, of_cpu = archive("cuda"), archive("cpu")
    pickled = of_gpu.read("archive/data.pkl")
    # BINUNICODE: the letter X, the length in four bytes, the text
    replaced = pickled.replace(b"X\x06\x00\x00\x00cuda:0", b"X\x03\x00\x00\x00cpu")
    assert replaced == of_cpu.read("archive/data.pkl") != pickled
    assert of_gpu.namelist() == of_cpu.namelist()
    assert of_gpu.read("archive/data/0") == of_cpu.read("archive/data/0")


def test_a_legacy_file_names_the_gpus(two_gpus):
    content = saved(checkpoint(), zipped=False)
    for name in (b"cuda:0", b"cuda:1", b"cpu"):
        assert name in content
    assert b"cudasim" not in content  # loads without this package


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
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(saved(checkpoint(), zipped=form != "legacy"))
    options = {"weights_only": weights_only, "mmap": form == "mmap"}
    loaded = torch.load(path, map_location=where, **options)
    assert places(*loaded.values()) == expected.split()
    if where == "meta":
        return
    assert loaded["zero"].tolist() == [0, 1, 2, 3]
    assert loaded["one"].tolist() == [0, 1, 2]
    loaded["zero"][1] = 9
    assert loaded["view"].tolist() == [9, 2, 3]  # still a view


def held():
    return [torch.cuda.memory_allocated(number) for number in (0, 1)]


def test_loading_counts_memory_once_per_storage(two_gpus):
    content = saved(checkpoint())
    assert held() == [0, 0]
    loaded = load(content)
    assert held() == [512, 512]
    del loaded
    assert held() == [0, 0]


def test_loading_goes_to_the_current_gpu_or_to_the_cpu(two_gpus):
    content = saved(checkpoint())
    torch.cuda.set_device(1)
    on_gpu = load(content, map_location="cuda")
    assert places(*on_gpu.values()) == ["cuda:1"] * 4
    on_cpu = load(content, map_location="cpu")["zero"]
    (on_cpu + torch.ones(4)).numpy()  # as any of the CPU
    error = raised(lambda: on_cpu + torch.ones(4, device="cuda:0"))
    assert "two devices, cuda:0 and cpu" in error


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
def test_copies_of_tensors_keep_their_gpu_and_share_nothing(two_gpus, copier):
    whole = torch.ones(3, device="cuda:1")
    for tensor in (whole, whole[1:]):
        copied = copier(tensor)
        assert copied.device == tensor.device
        assert torch.equal(copied, tensor)
        copied += 1
        assert tensor.tolist() == [1] * len(tensor)


@pytest.mark.parametrize("copier", COPIERS.values(), ids=COPIERS)
def test_copies_of_nets_and_optimizers_keep_class_and_gpu(two_gpus, copier):
    net = nn.Sequential(nn.Linear(2, 3).to("cuda:0"), nn.BatchNorm1d(3).to("cuda:1"))
    optimizer = torch.optim.Adam(net.parameters())
    values = torch.ones(4, 2, device="cuda:0")
    net[1](net[0](values).to("cuda:1")).sum().backward()
    optimizer.step()

    copied = copier(net)
    assert type(copied[0].weight) is nn.Parameter
    assert copied[0].weight.requires_grad
    assert places(*copied.state_dict().values()) == places(*net.state_dict().values())
    assert torch.equal(copied[0](values), net[0](values))

    *_, state = copier(optimizer).state.values()
    devices = {name: str(value.device) for name, value in state.items()}
    assert devices == {"step": "cpu", "exp_avg": "cuda:1", "exp_avg_sq": "cuda:1"}
