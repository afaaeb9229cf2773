"""Saving, loading, pickling and copying: devices are kept, files are those of a GPU machine."""

import copy
import io
import pickle
import pickletools
import subprocess
import sys
import zipfile

import pytest
import torch
import torch.utils.dlpack
from calls import raised
from torch import nn

import cudasim

NO_GPU = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
    "If you are running on a CPU-only machine, please use torch.load with "
    "map_location=torch.device('cpu') to map your storages to the CPU."
)
TOO_FEW = (
    "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. "
    "Please use torch.load with map_location to map your storages to an existing device."
)
FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
NO_REAL_GPU = pytest.mark.skipif(torch.cuda.device_count() > 0, reason="real GPUs are here")
TRUST = pytest.mark.parametrize("weights_only", [True, False])


def checkpoint():
    """A tensor on each GPU, a view of one of them, and a tensor on the CPU."""
    zero = torch.arange(4.0, device="cuda:0")
    one = torch.arange(3, device="cuda:1")
    return {"zero": zero, "view": zero[1:], "one": one, "cpu": torch.ones(2)}


def saved(zipped=True, **what):
    file = io.BytesIO()
    torch.save(what or checkpoint(), file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def load(content, **kwargs):
    return torch.load(io.BytesIO(content), **kwargs)


def devices(loaded):
    return [str(loaded[name].device) for name in ("zero", "view", "one", "cpu")]


def assert_values(loaded):
    assert loaded["zero"].tolist() == [0, 1, 2, 3] and loaded["view"].tolist() == [1, 2, 3]
    assert loaded["one"].tolist() == [0, 1, 2] and loaded["cpu"].tolist() == [1, 1]


def locations(pickled):
    """The places that a pickle names, in order."""
    strings = [arg for _, arg, _ in pickletools.genops(pickled) if isinstance(arg, str)]
    return [text for text in strings if text == "cpu" or text.startswith("cuda")]


def test_a_zip_file_names_the_gpus_that_a_real_one_would(two_gpus):
    with zipfile.ZipFile(io.BytesIO(saved())) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        stored = archive.read("archive/data.pkl")
        zero = archive.read("archive/data/0")
    # Strings are memoised, so each place is named once or, the pickler willing, more often.
    assert set(locations(stored)) == {"cuda:0", "cuda:1", "cpu"}
    assert b"FloatStorage" in stored and b"torch.cuda" not in stored
    assert b"cudasim" not in stored and b"cudasim" not in zero  # loads without this package
    assert {"data/0", "data/1", "data/2", "byteorder"} <= names
    assert torch.frombuffer(bytearray(zero), dtype=torch.float32).tolist() == [0, 1, 2, 3]


def test_a_legacy_file_names_them_too(two_gpus):
    content = saved(zipped=False)
    for name in (b"cuda:0", b"cuda:1", b"cpu"):
        assert name in content
    assert b"cudasim" not in content


def test_the_file_differs_from_the_cpus_in_its_places_alone(two_gpus):
    on_gpu = zipfile.ZipFile(io.BytesIO(saved(x=torch.ones(3, device="cuda"))))
    on_cpu = zipfile.ZipFile(io.BytesIO(saved(x=torch.ones(3))))
    said = on_gpu.read("archive/data.pkl")
    plain = on_cpu.read("archive/data.pkl")
    # BINUNICODE: the letter X, the length in four bytes, the text
    assert said.replace(b"X\x06\x00\x00\x00cuda:0", b"X\x03\x00\x00\x00cpu") == plain


@pytest.mark.parametrize("form", ["zip", "legacy", "mmap"])
@TRUST
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, ["cuda:0", "cuda:0", "cuda:1", "cpu"]),
        ("cpu", ["cpu"] * 4),
        ("cuda", ["cuda:0"] * 4),
        ("cuda:1", ["cuda:1"] * 4),
        (torch.device("cpu"), ["cpu"] * 4),
        (torch.device("cuda"), ["cuda:0"] * 4),
        (torch.device("cuda", 1), ["cuda:1"] * 4),
        ({"cuda:0": "cuda:1"}, ["cuda:1", "cuda:1", "cuda:1", "cpu"]),
        ({"cuda:0": "cuda:1", "cuda:1": "cuda:0"}, ["cuda:1", "cuda:1", "cuda:0", "cpu"]),
        ({"cuda:1": "cpu", "cpu": "cuda:0"}, ["cuda:0", "cuda:0", "cpu", "cuda:0"]),
        (lambda storage, place: storage, ["cpu"] * 4),
        (lambda storage, place: storage.cuda(1), ["cuda:1"] * 4),
        (lambda storage, place: None, ["cuda:0", "cuda:0", "cuda:1", "cpu"]),
        ("meta", ["meta"] * 4),
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_map_location(two_gpus, tmp_path, form, weights_only, where, expected):
    (tmp_path / "checkpoint.pt").write_bytes(saved(form != "legacy"))
    options = {"weights_only": weights_only, "mmap": form == "mmap"}
    loaded = torch.load(tmp_path / "checkpoint.pt", map_location=where, **options)
    assert devices(loaded) == expected
    if where != "meta":
        assert_values(loaded)
        loaded["zero"][1] = 9
        assert loaded["view"][0] == 9  # still a view


def test_plain_cuda_is_the_current_gpu(two_gpus):
    content = saved()
    torch.cuda.set_device(1)
    assert devices(load(content, map_location="cuda")) == ["cuda:1"] * 4


def test_an_integer_is_refused_as_torch_refuses_it(two_gpus):
    with pytest.raises(TypeError, match="'int' object is not callable"):
        load(saved(), map_location=1)


def test_loading_counts_memory_once_per_storage(two_gpus):
    content = saved()
    before = torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)
    loaded = load(content)
    assert torch.cuda.memory_allocated(0) - before[0] == 512
    assert torch.cuda.memory_allocated(1) - before[1] == 512
    del loaded
    assert (torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)) == before


def test_a_tensor_loaded_to_the_cpu_is_an_ordinary_one(two_gpus):
    loaded = load(saved(), map_location="cpu")["zero"]
    (loaded + torch.ones(4)).numpy()
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        loaded + torch.ones(4, device="cuda")


@NO_REAL_GPU
@FORMATS
@TRUST
def test_without_a_simulation_the_real_error(zipped, weights_only):
    with cudasim.simulate(2):
        content = saved(zipped)
    assert raised(lambda: load(content, weights_only=weights_only)) == NO_GPU
    assert devices(load(content, map_location="cpu", weights_only=weights_only)) == ["cpu"] * 4


@NO_REAL_GPU
def test_a_process_without_the_package_gets_the_real_error(two_gpus, tmp_path):
    torch.save(checkpoint(), tmp_path / "checkpoint.pt")
    program = (
        "import sys, torch\n"
        "try: torch.load('checkpoint.pt')\n"
        "except RuntimeError as error: print(error)\n"
        "print(torch.load('checkpoint.pt', map_location='cpu')['one'].tolist())\n"
        "assert 'cudasim' not in sys.modules\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [NO_GPU, "[0, 1, 2]"]


@FORMATS
def test_with_fewer_gpus_the_real_error(zipped):
    with cudasim.simulate(2):
        content = saved(zipped)
    with cudasim.simulate(1):
        assert raised(lambda: load(content)) == TOO_FEW
        assert devices(load(content, map_location="cuda:0")) == ["cuda:0"] * 4


def test_a_file_of_the_cpu_loads_onto_a_gpu(two_gpus):
    content = saved(x=torch.arange(3))
    assert load(content)["x"].device.type == "cpu"
    assert load(content, map_location="cuda:1")["x"].device == torch.device("cuda:1")


COPIERS = pytest.mark.parametrize(
    "copier",
    [
        copy.deepcopy,
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: load(saved(value=value), weights_only=False)["value"],
    ],
    ids=["deepcopy", "pickle", "save"],
)


@COPIERS
def test_tensors_keep_their_gpu_and_share_nothing(two_gpus, copier):
    for tensor in (torch.ones(3, device="cuda:1"), torch.ones(3, device="cuda:1")[1:]):
        other = copier(tensor)
        assert other.device == tensor.device and torch.equal(other, tensor)
        other += 1
        assert tensor.tolist() == [1] * len(tensor)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda pair: load(saved(x=pair))["x"]])
def test_views_copied_together_still_share(two_gpus, copier):
    base = torch.zeros(4, device="cuda:1")
    whole, part = copier([base, base[2:]])
    whole[3] = 5
    assert part.tolist() == [0, 5] and base.sum() == 0
    assert part.device == whole.device == base.device


def test_a_shallow_copy_shares(two_gpus):
    tensor = torch.zeros(2, device="cuda:1")
    other = copy.copy(tensor)
    other += 1
    assert tensor.tolist() == [1, 1] and other.device == tensor.device


@COPIERS
def test_parameters_keep_their_class(two_gpus, copier):
    weight = nn.Parameter(torch.ones(2, device="cuda:1"))
    other = copier(weight)
    assert type(other) is nn.Parameter and other.requires_grad
    assert other.device == weight.device


def test_a_deep_copy_has_the_gradient_too(two_gpus):
    tensor = torch.ones(2, device="cuda:1", requires_grad=True)
    (tensor * 3).sum().backward()
    other = copy.deepcopy(tensor)
    assert other.grad.device == tensor.device and other.grad.tolist() == [3, 3]
    assert other.grad.data_ptr() != tensor.grad.data_ptr()


@COPIERS
def test_modules_keep_the_gpu_of_each_part(two_gpus, copier):
    net = nn.Sequential(nn.Linear(2, 3).to("cuda:0"), nn.BatchNorm1d(3).to("cuda:1"))
    other = copier(net)
    assert [p.device for p in other.parameters()] == [p.device for p in net.parameters()]
    assert [b.device for b in other.buffers()] == [b.device for b in net.buffers()]
    values = torch.ones(4, 2, device="cuda:0")
    assert torch.equal(other[0](values), net[0](values))


@COPIERS
def test_optimizers_keep_their_state_on_the_gpu(two_gpus, copier):
    weight = nn.Parameter(torch.ones(2, device="cuda:1"))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    (state,) = copier(optimizer).state.values()
    assert {name: str(value.device) for name, value in state.items()} == {
        "step": "cpu",
        "exp_avg": "cuda:1",
        "exp_avg_sq": "cuda:1",
    }


def test_a_state_loaded_from_the_cpu_moves_to_its_parameters(two_gpus):
    weight = nn.Parameter(torch.ones(2, device="cuda:1"))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    content = saved(state=optimizer.state_dict())
    optimizer.load_state_dict(load(content, map_location="cpu")["state"])
    assert optimizer.state[weight]["exp_avg"].device == torch.device("cuda:1")
    assert optimizer.state[weight]["step"].device.type == "cpu"
    optimizer.step()


def test_a_state_dict_of_another_gpu_loads_in_place(two_gpus):
    net = nn.Linear(2, 3).to("cuda:1")
    content = saved(net=nn.Linear(2, 3).to("cuda:0").state_dict())
    before = net.weight.data_ptr()
    net.load_state_dict(load(content)["net"])
    assert net.weight.device == torch.device("cuda:1") and net.weight.data_ptr() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda dense: dense.to_sparse(),
        lambda dense: dense.to_sparse_csr(),
        lambda dense: dense.to_sparse_csc(),
    ],
    ids=["coo", "csr", "csc"],
)
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta:UserWarning")
def test_sparse_tensors_are_saved_with_their_gpu(two_gpus, make):
    sparse = make(torch.eye(3, device="cuda:1"))
    content = saved(sparse=sparse)
    for where, expected in ((None, "cuda:1"), ("cuda:0", "cuda:0"), ("cpu", "cpu")):
        loaded = load(content, map_location=where)["sparse"]
        assert str(loaded.device) == str(loaded.values().device) == expected
        assert torch.equal(loaded.to_dense().cpu(), torch.eye(3))


def test_other_types_of_number(two_gpus):
    kinds = [torch.bfloat16, torch.half, torch.bool, torch.complex64, torch.uint8, torch.uint16]
    for kind in [*kinds, torch.float8_e4m3fn]:
        tensor = torch.zeros(3, device="cuda:1").to(kind)
        loaded = load(saved(x=tensor))["x"]
        assert loaded.device == tensor.device and loaded.dtype is kind
