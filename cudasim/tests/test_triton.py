"""Kernels in Triton, which its interpreter runs on simulated GPUs."""

import pytest
import torch
from torch.library import triton_op

import cudasim

triton = pytest.importorskip("triton", reason="needs the package triton")
tl = triton.language

REFUSAL = (
    r"Pointer argument( \(at 1\))? cannot be accessed from Triton \(cpu tensor\?\)"
)


def add_kernel(x_ptr, y_ptr, out_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def launch(kernel, x, y, **options):
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, y, out, 100, **options)
    return out


@pytest.fixture
def add(monkeypatch, two_gpus):
    """The kernel, made for the interpreter."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return triton.jit(add_kernel)


def test_a_kernel_computes_on_its_gpu(add):
    x = torch.arange(120.0, device="cuda")
    out = launch(add, x[20:], x[:100], BLOCK=64)
    assert out.device == torch.device("cuda:0")
    assert torch.equal(out.cpu(), torch.arange(20.0, 220.0, 2))
    assert torch.equal(x.cpu(), torch.arange(120.0))


def test_a_kernel_writes_to_a_view(add):
    x = torch.ones(100, device="cuda")
    wide = torch.zeros(120, device="cuda")
    add[(2,)](x, x, wide[10:], 100, BLOCK=64)
    assert wide.tolist() == [0.0] * 10 + [2.0] * 100 + [0.0] * 10


def test_a_tensor_of_the_cpu_is_refused(add):
    x = torch.ones(100, device="cuda")
    with pytest.raises(ValueError, match=REFUSAL):
        launch(add, x, x.cpu(), BLOCK=64)
    with pytest.raises(ValueError, match=REFUSAL.replace("1", "0")):
        launch(add, x.cpu(), x.cpu(), BLOCK=64)
    pinned = x.cpu().pin_memory()
    assert launch(add, x, pinned, BLOCK=64).sum() == 200
    registered = x.cpu()
    torch.cuda.cudart().cudaHostRegister(registered.data_ptr(), registered.nbytes, 0)
    assert launch(add, x, registered, BLOCK=64).sum() == 200


# https://github.com/triton-lang/triton/issues/2441
def test_a_kernel_runs_on_the_current_gpu_alone(add):
    x = torch.ones(100, device="cuda:1")
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        launch(add, x, x, BLOCK=64)
    with torch.cuda.device(1):
        assert launch(add, x, x, BLOCK=64).device == x.device


def test_autotune_takes_a_configuration(add):
    configs = [triton.Config({"BLOCK": size}) for size in (32, 64)]
    tuned = triton.autotune(configs, key=["size"])(add)
    x = torch.ones(100, device="cuda")
    assert launch(tuned, x, x).tolist() == [2.0] * 100
    assert tuned.best_config is configs[0]


def test_an_operator_wraps_a_kernel(add):
    @triton_op("cudasim_test::add", mutates_args={})
    def operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return launch(torch.library.wrap_triton(add), x, y, BLOCK=64)

    x = torch.ones(100, device="cuda")
    assert operator(x, x).tolist() == [2.0] * 100


def test_a_launch_does_not_wait(add):
    x = torch.ones(100, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    launch(add, x, x, BLOCK=64)


def seconds_of(work):
    """Return the modelled time of a kernel that was launched before."""
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(10**6)  # or the host would be slower than the card
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


def test_a_kernel_takes_the_time_of_its_bytes(add):
    cudasim.disable()
    with cudasim.simulate(1, clock="modelled"):
        x = torch.ones(2**20, device="cuda")
        y = torch.empty_like(x)
        of_triton = seconds_of(lambda: add[(1,)](x, x, y, 1, BLOCK=1))
        of_pytorch = seconds_of(lambda: torch.add(x, x, out=y))
    assert 3 * x.nbytes / 320e9 < of_triton  # by the data sheet of a T4
    assert of_triton == pytest.approx(of_pytorch, rel=0.5)


def test_the_driver_knows_the_current_gpu(add):
    with torch.cuda.device(1):
        active = triton.runtime.driver.active
        assert active.get_active_torch_device() == torch.device("cuda:1")
        assert active.get_current_target().arch == 75


def test_a_compiled_kernel_is_refused(monkeypatch, two_gpus):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    x = torch.ones(100, device="cuda")
    with pytest.raises(RuntimeError, match=r"\(add_kernel\); set TRITON_INTERPRET=1"):
        launch(triton.jit(add_kernel), x, x, BLOCK=64)
