"""Devices labelled `mps`: what an Apple reader would see."""

import io
import os
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F
from calls import raised
from torch import nn

import cudasim
from cudasim.backends.cuda import publishing
from cudasim.session import session

FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. "
    "Please use float32 instead."
)


@pytest.fixture
def mps():
    with cudasim.simulate(device_type="mps", force=True):
        yield


def test_the_line_says_what_is_simulated(capsys):
    for kind, said in (
        ("cuda", "2 simulated GPUs (T4)"),
        ("mps", "1 simulated mps device (M1)"),
    ):
        with cudasim.simulate(device_type=kind, force=True):
            assert session.current().name.startswith("Simulated GPU (")
        assert capsys.readouterr().out == f"cudasim: {said}; real values, computed on the CPU\n"


def test_tensors_on_mps(mps):
    X = torch.ones(2, 3, device="mps")
    assert repr(X) == "tensor([[1., 1., 1.],\n        [1., 1., 1.]], device='mps:0')"
    assert repr(X.device) == "device(type='mps', index=0)"
    assert X.is_mps and not X.is_cuda and not X.is_cpu and X.get_device() == 0
    assert X.type() == "torch.mps.FloatTensor"
    assert torch.ones(3).to("mps").sum().item() == 3
    assert X.to("cpu").device.type == "cpu" and X.to("mps") is X
    assert torch.ones(2, device="mps:1").device == X.device  # MPS does not look at the index
    assert torch.device(0) == X.device
    assert nn.Linear(2, 1).to("mps").weight.is_mps
    assert not hasattr(X, "mps")  # as on a Mac: there is no such method
    with torch.device("mps"):
        assert torch.zeros(1).is_mps
    with pytest.raises(TypeError, match="can't convert mps:0 device type tensor to numpy"):
        X.numpy()


def test_torch_mps_and_torch_accelerator(mps):
    assert torch.backends.mps.is_available() and torch.backends.mps.is_built()
    assert torch.backends.mps.get_name() == "Simulated GPU (M1)"
    assert torch.mps.is_available() and torch.mps.device_count() == 1
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
    assert str(torch.accelerator.current_accelerator(check_available=True)) == "mps"
    assert torch.accelerator.current_device_index() == 0
    assert torch.get_device_module() is torch.mps
    torch.mps.synchronize()
    torch.accelerator.synchronize()
    assert torch.accelerator.current_stream().device == torch.device("mps:0")
    before, held = torch.mps.current_allocated_memory(), torch.ones(1000, device="mps")
    assert torch.mps.current_allocated_memory() - before >= held.nbytes
    assert torch.mps.driver_allocated_memory() >= torch.mps.current_allocated_memory()
    assert torch.mps.recommended_max_memory() == 11453251584  # what a Mac of 16 GB answers
    del held
    assert torch.mps.current_allocated_memory() == before
    torch.mps.empty_cache()
    assert torch.mps.driver_allocated_memory() == 0
    first, second = (torch.mps.Event(enable_timing=True) for _ in range(2))
    first.record()
    second.record()
    first.wait()
    second.synchronize()
    assert second.query() and first.elapsed_time(second) >= 0
    with pytest.raises(NotImplementedError, match="runs no Metal source"):
        torch.mps.compile_shader("kernel void f() {}")


def test_cuda_is_as_on_a_build_without_it(mps):
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    assert not torch.xpu.is_available()
    for call in (
        lambda: torch.ones(1, device="cuda"),
        lambda: torch.ones(1).cuda(),
        lambda: torch.ones(1, device="mps").to("cuda:0"),
        lambda: nn.Linear(1, 1).cuda(),
    ):
        # C++ asks for CUDA once a process: a simulation before this one may have answered.
        with pytest.raises((AssertionError, RuntimeError), match=r"(?i)cuda|nvidia"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ones(2, dtype=torch.float64, device="mps"),
        lambda: torch.tensor([1.0], dtype=torch.float64, device="mps"),
        lambda: torch.as_tensor(numpy.ones(2), device="mps"),
        lambda: torch.ones(2, dtype=torch.float64).to("mps"),
        lambda: torch.ones(2, device="mps").double(),
        lambda: torch.ones(2, device="mps").sum(dtype=torch.float64),
        lambda: nn.Linear(2, 2).double().to("mps"),
        lambda: torch.ones(2, device="mps").new_ones(2, dtype=torch.float64),
        lambda: torch.zeros_like(torch.ones(2, device="mps"), dtype=torch.float64),
    ],
)
def test_mps_has_no_float64(mps, call):
    assert raised(call, TypeError) == FLOAT64


def test_what_mps_refuses_is_not_counted(mps):
    raised(lambda: torch.ones(1000, dtype=torch.float64, device="mps"), TypeError)
    assert torch.mps.current_allocated_memory() == 0
    assert "ComplexDouble" in raised(
        lambda: torch.ones(2, dtype=torch.complex128, device="mps"), TypeError
    )
    assert torch.ones(2, dtype=torch.float64).sum().item() == 2  # the CPU has it


def ones(*shape, on="mps"):
    return torch.ones(*shape, device=on)


ELSEWHERE = (
    "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
)
ARGUMENT = "Tensor for argument {} is on cpu but expected on mps"
CHECKED = (
    "Tensor for argument #{} is on CPU, but expected it to be on GPU (while checking arguments "
    "for {})"
)
PLACEHOLDER = "Placeholder storage has not been allocated on MPS device!"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ones(3) + ones(3, on="cpu"), ELSEWHERE.format("mps:0", "cpu")),
        (
            lambda: ones(3)[torch.zeros(1, dtype=torch.long)].sum() + ones(1, on="cpu"),
            ELSEWHERE.format("mps:0", "cpu"),
        ),
        (lambda: nn.Linear(3, 2)(ones(2, 3)), ARGUMENT.format("weight")),
        (lambda: nn.Linear(3, 2).to("mps")(ones(2, 3, on="cpu")), ARGUMENT.format("input")),
        (lambda: ones(2, 2) @ ones(2, 2, on="cpu"), CHECKED.format("2 'mat2'", "mm")),
        (
            lambda: torch.addmm(ones(2), ones(2, 2, on="cpu"), ones(2, 2)),
            CHECKED.format("2 'mat1'", "addmm_out_mps_impl"),
        ),
        (lambda: nn.Embedding(4, 2)(torch.zeros(2, dtype=torch.long, device="mps")), PLACEHOLDER),
        (lambda: torch.bmm(ones(1, 2, 2), ones(1, 2, 2, on="cpu")), PLACEHOLDER),
        (
            lambda: torch.cat([ones(2), ones(2, on="cpu")]),
            "torch.cat(): all input tensors must be on the same device. Received cpu and mps:0",
        ),
        (
            lambda: nn.Conv2d(1, 1, 3)(ones(2, 1, 5, 5)),
            "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
        ),
        (
            lambda: nn.Conv2d(1, 1, 3).to("mps")(ones(2, 1, 5, 5, on="cpu")),
            "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same or "
            "input should be a MKLDNN tensor and weight is a dense tensor",
        ),
    ],
)
def test_cross_device_errors_in_the_words_of_mps(mps, call, text):
    assert raised(call) == text


def test_memory_of_mps_runs_out(mps):
    text = raised(lambda: torch.empty(20 * 2**30, dtype=torch.uint8, device="mps"))
    assert text == (
        "MPS backend out of memory (MPS allocated: 0 bytes, other allocations: 0 bytes, max "
        "allowed: 18.13 GiB). Tried to allocate 20.00 GiB on shared pool. Use "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "
        "cause system failure)."
    )
    torch.mps.set_per_process_memory_fraction(0.1)
    assert "max allowed: 1.07 GiB" in raised(
        lambda: torch.empty(2 * 2**30, dtype=torch.uint8, device="mps")
    )
    torch.mps.set_per_process_memory_fraction(0.0)  # no limit
    assert torch.empty(2 * 2**30, dtype=torch.uint8, device="mps").is_mps


def test_random_numbers_of_mps(mps):
    torch.manual_seed(3)
    first, host = torch.rand(4, device="mps"), torch.rand(4)
    torch.mps.manual_seed(3)
    state = torch.mps.get_rng_state()
    assert torch.equal(torch.rand(4, device="mps"), first)
    torch.mps.set_rng_state(state)
    generator = torch.Generator("mps").manual_seed(3)
    for options in ({}, {"generator": generator}):
        assert torch.equal(torch.rand(4, device="mps", **options), first)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), host)  # the CPU's stream is its own
    said = raised(lambda: torch.rand(4, device="mps", generator=torch.Generator()))
    assert said == "Expected a 'mps' device type for generator but found 'cpu'"


def test_autocast_on_mps(mps):
    net, X = nn.Linear(3, 2).to("mps"), ones(2, 3)
    with torch.autocast("mps"):
        y = net(X)
        assert y.dtype is torch.float16 and y.softmax(1).dtype is torch.float32
        assert F.binary_cross_entropy(y.sigmoid().float(), ones(2, 2)).is_mps  # not banned here
        assert nn.Linear(3, 2)(torch.ones(2, 3)).dtype is torch.float32  # the CPU's own
    with torch.autocast("mps", dtype=torch.bfloat16):
        assert net(X).dtype is torch.bfloat16
    assert net(X).dtype is torch.float32


@pytest.mark.parametrize(
    ("home", "where", "expected"),
    [("mps", None, "mps:0"), ("mps", "cpu", "cpu"), ("cpu", "mps", "mps:0")],
)
def test_files_name_the_device(mps, home, where, expected):
    file = io.BytesIO()
    torch.save({"w": ones(3, on=home)}, file)
    file.seek(0)
    assert str(torch.load(file, map_location=where)["w"].device) == expected


def test_other_processes_cannot_have_the_memory(mps):
    for name in ("_share_fd_", "_share_filename_"):
        share = getattr(ones(2).untyped_storage(), f"{name}cpu_")
        assert raised(share) == f"{name}: only available on CPU"
    assert torch.ones(2).share_memory_().is_shared() and not ones(2).is_shared()


def test_children_are_told_the_type():
    before = dict(os.environ)
    with cudasim.simulate(device_type="mps", force=True):
        assert os.environ["CUDASIM_DEVICE_TYPE"] == "mps"
        assert publishing.FOLDER not in os.environ  # nothing is published for nvidia-smi
        assert os.environ["PATH"] == before["PATH"]
    assert os.environ == before


def test_one_type_after_another():
    before = torch.accelerator.current_accelerator()
    for kind in ("mps", "cuda", "mps"):
        with cudasim.simulate(device_type=kind, force=True), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert str(torch.ones(2, device=kind).device) == f"{kind}:0"
            with torch.autocast(kind):
                assert ones(2, 2, on=kind).mm(ones(2, 2, on=kind)).dtype is torch.float16
    assert torch.accelerator.current_accelerator() == before
