"""Saving, loading, pickling and copying: devices are kept, files are those of a GPU machine."""

import copy
import io
import operator
import pickle
import zipfile

import pytest
import torch
from torch import nn

import cudasim
from fidelity.helpers import places, raised


def checkpoint():
    """A tensor on each GPU, a view of one of them, and a tensor on the CPU."""
    zero = torch.arange(4.0, device="cuda:0")
    one = torch.arange(3, device="cuda:1")
    cpu = torch.ones(2)
    return {"zero": zero, "view": zero[1:], "one": one, "cpu": cpu}


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


@pytest.fixture(params=["zip", "legacy", "mmap"])
def form(request):
    """The form of a file, or how a file in the usual form is read."""
    return request.param


@pytest.fixture(params=[True, False], ids=["weights only", "all"])
def load_checkpoint(request, form, two_gpus, tmp_path):
    """Return a function that loads a checkpoint from a file with a `map_location`."""
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(saved(checkpoint(), zipped=form != "legacy"))
    options = {"weights_only": request.param, "mmap": form == "mmap"}

    def load_to(where):
        return torch.load(path, map_location=where, **options)

    return load_to


def as_it_was(storage, place):
    return None


def on_the_cpu(storage, place):
    return storage


def on_the_second_gpu(storage, place):
    return storage.cuda(1)


SWAPPED = {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}
CPU_AND_SECOND_GPU_MOVED = {"cuda:1": "cpu", "cpu": "cuda:0"}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, "cuda:0 cuda:0 cuda:1 cpu"),
        (as_it_was, "cuda:0 cuda:0 cuda:1 cpu"),
        ("cpu", "cpu cpu cpu cpu"),
        (on_the_cpu, "cpu cpu cpu cpu"),
        ("cuda", "cuda:0 cuda:0 cuda:0 cuda:0"),
        (torch.device("cuda"), "cuda:0 cuda:0 cuda:0 cuda:0"),
        ("cuda:1", "cuda:1 cuda:1 cuda:1 cuda:1"),
        (torch.device("cuda:1"), "cuda:1 cuda:1 cuda:1 cuda:1"),
        (on_the_second_gpu, "cuda:1 cuda:1 cuda:1 cuda:1"),
        (SWAPPED, "cuda:1 cuda:1 cuda:0 cpu"),
        (CPU_AND_SECOND_GPU_MOVED, "cuda:0 cuda:0 cpu cuda:0"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_map_location(load_checkpoint, where, expected):
    loaded = load_checkpoint(where)
    assert places(*loaded.values()) == expected.split()
    assert loaded["zero"].tolist() == [0, 1, 2, 3]
    assert loaded["one"].tolist() == [0, 1, 2]
    loaded["zero"][1] = 9
    assert loaded["view"].tolist() == [9, 2, 3]  # still a view


def test_map_location_may_be_meta(load_checkpoint):
    loaded = load_checkpoint("meta")
    assert places(*loaded.values()) == ["meta"] * 4


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
    on_gpu = torch.ones(4, device="cuda:0")
    error = raised(lambda: on_cpu + on_gpu)
    assert "two devices, cuda:0 and cpu" in error


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="real GPUs are here")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_without_a_simulation_the_real_error(zipped):
    with cudasim.simulate(2):
        content = saved(checkpoint(), zipped)
    error = raised(lambda: load(content))
    assert error.startswith(
        "RuntimeError: Attempting to deserialize object on a CUDA device but "
        "torch.cuda.is_available() is False."
    )
    loaded = load(content, map_location="cpu")
    assert places(*loaded.values()) == ["cpu"] * 4


def pickle_and_load(value):
    return pickle.loads(pickle.dumps(value))


def save_and_load(value):
    return load(saved(value), weights_only=False)


@pytest.mark.parametrize(
    "function",
    ["tensor", "zeros", "meshgrid", "Tensor.to", "Tensor.cuda", "Tensor.numpy"],
)
def test_functions_of_torch_are_pickled_by_name(two_gpus, function):
    # As worker processes of a DataLoader get a transform.
    found = operator.attrgetter(function)(torch)
    data = pickle.dumps(found)
    assert pickle.loads(data) is found
    cudasim.disable()
    assert pickle.loads(data) is operator.attrgetter(function)(torch)


COPIERS = [copy.deepcopy, pickle_and_load, save_and_load]


@pytest.mark.parametrize("copier", COPIERS)
def test_copies_of_tensors_keep_their_gpu_and_share_nothing(two_gpus, copier):
    whole = torch.ones(3, device="cuda:1")
    for tensor in (whole, whole[1:]):
        copied = copier(tensor)
        assert copied.device == tensor.device
        assert torch.equal(copied, tensor)
        copied += 1
        assert tensor.tolist() == [1] * len(tensor)


@pytest.mark.parametrize("copier", COPIERS)
def test_copies_of_nets_and_optimizers_keep_class_and_gpu(two_gpus, copier):
    linear = nn.Linear(2, 3).to("cuda:0")
    norm = nn.BatchNorm1d(3).to("cuda:1")
    net = nn.Sequential(linear, norm)
    optimizer = torch.optim.Adam(net.parameters())
    values = torch.ones(4, 2, device="cuda:0")
    hidden = linear(values).to("cuda:1")
    norm(hidden).sum().backward()
    optimizer.step()

    copied = copier(net)
    copied_linear, copied_norm = copied
    assert type(copied_linear.weight) is nn.Parameter
    assert copied_linear.weight.requires_grad
    assert set(places(*copied_linear.state_dict().values())) == {"cuda:0"}
    assert set(places(*copied_norm.state_dict().values())) == {"cuda:1"}
    assert torch.equal(copied_linear(values), linear(values))

    *_, state = copier(optimizer).state.values()
    devices = {name: str(value.device) for name, value in state.items()}
    assert devices == {"step": "cpu", "exp_avg": "cuda:1", "exp_avg_sq": "cuda:1"}
