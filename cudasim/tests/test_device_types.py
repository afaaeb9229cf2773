"""Devices labelled `mps`: what an Apple reader would see."""

import functools
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


@pytest.fixture
def mps():
    with cudasim.simulate(device_type="mps", force=True):
        yield


def ones(*shape, on="mps", **options):
    return torch.ones(*shape, device=on, **options)


def test_tensors_on_mps(mps):
    X = ones(2)
    assert repr(X) == "tensor([1., 1.], device='mps:0')"
    assert repr(X.device) == "device(type='mps', index=0)"
    assert X.device == torch.device(0)
    assert X.get_device() == 0
    assert X.is_mps
    assert not X.is_cuda
    assert not X.is_cpu
    assert X.type() == "torch.mps.FloatTensor"
    assert not hasattr(X, "mps")  # as on a Mac: there is no such method
    words = raised(X.numpy, TypeError)
    assert "can't convert mps:0 device type tensor to numpy" in words


def test_moves_to_and_from_mps(mps):
    X = ones(2)
    assert X.to("mps") is X
    assert X.to("cpu").device.type == "cpu"
    assert torch.ones(3).to("mps").sum().item() == 3
    assert ones(2, on="mps:1").device == X.device  # MPS does not look at the index
    assert nn.Linear(2, 1).to("mps").weight.is_mps
    with torch.device("mps"):
        assert torch.zeros(1).is_mps


def test_torch_mps_and_torch_accelerator(mps):
    assert torch.backends.mps.is_available()
    assert torch.backends.mps.is_built()
    assert torch.backends.mps.get_name() == "Simulated GPU (M1)"
    for module in (torch.mps, torch.accelerator):
        assert module.is_available()
        assert module.device_count() == 1
        module.synchronize()
    assert str(torch.accelerator.current_accelerator(check_available=True)) == "mps"
    assert torch.accelerator.current_device_index() == 0
    assert torch.get_device_module() is torch.mps
    assert torch.accelerator.current_stream().device == torch.device("mps:0")
    assert "ComplexDouble" in raised(lambda: ones(9, dtype=torch.complex128), TypeError)
    with pytest.raises(NotImplementedError, match="runs no Metal source"):
        torch.mps.compile_shader("kernel void f() {}")


def test_memory_of_mps_is_counted(mps):
    allocated = torch.mps.current_allocated_memory
    driver = torch.mps.driver_allocated_memory
    assert torch.mps.recommended_max_memory() == 11453251584  # as on a Mac of 16 GB
    assert allocated() == 0
    held = ones(1000)
    assert driver() >= allocated() >= held.nbytes
    del held
    torch.mps.empty_cache()
    assert allocated() == driver() == 0


def test_events_of_mps(mps):
    first = torch.mps.Event(enable_timing=True)
    second = torch.mps.Event(enable_timing=True)
    first.record()
    second.record()
    first.wait()
    second.synchronize()
    assert second.query()
    assert first.elapsed_time(second) >= 0


def test_cuda_is_as_on_a_build_without_it(mps):
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert not torch.xpu.is_available()
    for call in (
        lambda: ones(1, on="cuda"),
        torch.ones(1).cuda,
        nn.Linear(1, 1).cuda,
        lambda: ones(1).to("cuda:0"),
    ):
        # C++ asks for CUDA once a process: a simulation before this one may have answered.
        with pytest.raises((AssertionError, RuntimeError), match=r"(?i)cuda|nvidia"):
            call()


NO_FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support "
    "float64. Please use float32 instead."
)


def test_mps_makes_no_float64(mps):
    x = ones(2)

    def error_of(call):
        return raised(call, TypeError)

    make = functools.partial(torch.ones, 2, dtype=torch.float64, device="mps")
    assert error_of(make) == NO_FLOAT64
    copy = functools.partial(torch.tensor, [1.0], dtype=torch.float64, device="mps")
    assert error_of(copy) == NO_FLOAT64
    assert error_of(lambda: x.new_ones(2, dtype=torch.float64)) == NO_FLOAT64
    assert error_of(lambda: torch.zeros_like(x, dtype=torch.float64)) == NO_FLOAT64


def test_nothing_becomes_float64_on_mps(mps):
    x = ones(2)
    doubles = torch.ones(2, dtype=torch.float64)
    array = numpy.ones(2)
    net = nn.Linear(2, 2).double()
    for call in (
        x.double,
        lambda: x.sum(dtype=torch.float64),
        lambda: doubles.to("mps"),
        lambda: torch.as_tensor(array, device="mps"),
        lambda: net.to("mps"),
    ):
        assert raised(call, TypeError) == NO_FLOAT64


@pytest.fixture
def x(mps):
    """A matrix on the GPU."""
    return ones(2, 2)


@pytest.fixture
def host(mps):
    """A matrix on the CPU."""
    return torch.ones(2, 2)


def test_mps_names_both_devices_of_a_sum(x, host):
    error = (
        "Expected all tensors to be on the same device, but found at least two devices, "
        "mps:0 and cpu!"
    )
    assert raised(lambda: x + host) == error
    # A single number rides along; one of a vector does not.
    number = x[0, host[0].long()].sum()
    assert raised(lambda: number + host[0, :1]) == error


def test_mps_names_the_operand_of_a_linear_layer(x, host):
    error = raised(lambda: nn.Linear(2, 2)(x))
    assert error == "Tensor for argument weight is on cpu but expected on mps"
    layer = nn.Linear(2, 2).to("mps")
    error = raised(lambda: layer(host))
    assert error == "Tensor for argument input is on cpu but expected on mps"


def test_mps_names_the_operand_of_a_product(x, host):
    assert raised(lambda: x @ host) == (
        "Tensor for argument #2 'mat2' is on CPU, but expected it to be on GPU (while "
        "checking arguments for mm)"
    )
    error = (
        "Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU (while "
        "checking arguments for addmm_out_mps_impl)"
    )
    assert raised(lambda: x.addmm(host, x)) == error
    assert raised(lambda: x.addmm_(host, x)) == error


def test_mps_has_no_storage_for_what_is_on_the_cpu(x, host):
    error = "Placeholder storage has not been allocated on MPS device!"
    assert raised(lambda: nn.Embedding(4, 2)(x.long())) == error
    assert raised(lambda: torch.bmm(x[None], host[None])) == error


def test_mps_names_the_devices_that_are_joined(x, host):
    assert raised(lambda: torch.cat([x, host])) == (
        "torch.cat(): all input tensors must be on the same device. Received cpu and mps:0"
    )


def test_mps_names_the_types_of_a_convolution(x, host):
    layer = nn.Conv2d(1, 1, 1)
    assert raised(lambda: layer(x[None, None])) == (
        "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same"
    )
    layer.to("mps")
    assert raised(lambda: layer(host[None, None])) == (
        "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same "
        "or input should be a MKLDNN tensor and weight is a dense tensor"
    )


def test_memory_of_mps_runs_out(mps):
    def bytes_of(gib):
        return torch.empty(gib * 2**30, dtype=torch.uint8, device="mps")

    assert raised(lambda: bytes_of(20)) == (
        "MPS backend out of memory (MPS allocated: 0 bytes, other allocations: 0 bytes, max "
        "allowed: 18.13 GiB). Tried to allocate 20.00 GiB on shared pool. Use "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "
        "cause system failure)."
    )
    torch.mps.set_per_process_memory_fraction(0.1)
    assert "max allowed: 1.07 GiB" in raised(lambda: bytes_of(2))
    torch.mps.set_per_process_memory_fraction(0.0)  # no limit
    assert bytes_of(2).is_mps


def test_random_numbers_of_mps(mps):
    torch.manual_seed(3)
    numbers = torch.rand(4, device="mps")
    of_cpu = torch.rand(4)
    torch.mps.manual_seed(3)
    state = torch.mps.get_rng_state()
    assert torch.equal(torch.rand(4, device="mps"), numbers)
    torch.mps.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="mps"), numbers)
    generator = torch.Generator("mps").manual_seed(3)
    assert torch.equal(torch.rand(4, device="mps", generator=generator), numbers)

    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), of_cpu)  # the CPU's stream is its own
    words = raised(lambda: torch.rand(4, device="mps", generator=torch.Generator()))
    assert words == "Expected a 'mps' device type for generator but found 'cpu'"


def test_autocast_on_mps(mps):
    net, X = nn.Linear(3, 2).to("mps"), ones(2, 3)
    with torch.autocast("mps"):
        y = net(X)
        assert y.dtype is torch.float16
        assert y.softmax(1).dtype is torch.float32
        # It is not banned here, as it is on CUDA.
        assert F.binary_cross_entropy(y.sigmoid().float(), ones(2, 2)).is_mps
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
    storage = ones(2).untyped_storage()
    for name in ("_share_fd_", "_share_filename_"):
        words = raised(getattr(storage, f"{name}cpu_"))
        assert words == f"{name}: only available on CPU"
    assert torch.ones(2).share_memory_().is_shared()
    assert not ones(2).is_shared()


def test_children_are_told_the_type():
    before = dict(os.environ)
    with cudasim.simulate(device_type="mps", force=True):
        assert os.environ["CUDASIM_DEVICE_TYPE"] == "mps"
        # Nothing is published for nvidia-smi.
        assert publishing.FOLDER not in os.environ
        assert os.environ["PATH"] == before["PATH"]
    assert os.environ == before


def test_one_type_after_another():
    before = torch.accelerator.current_accelerator()
    for kind in ("mps", "cuda", "mps"):
        with cudasim.simulate(device_type=kind, force=True), warnings.catch_warnings():
            warnings.simplefilter("error")
            x = ones(2, 2, on=kind)
            assert str(x.device) == f"{kind}:0"
            with torch.autocast(kind):
                assert x.mm(x).dtype is torch.float16
    assert torch.accelerator.current_accelerator() == before
