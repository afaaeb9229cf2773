"""What a build with CUDA has: its version, old types, and functions of `torch._C`."""

import pytest
import torch
from calls import raised
from torch.nn import functional as F

import cudasim

CUDA = torch.version.cuda


@pytest.mark.usefixtures("two_gpus")
def test_old_types_take_a_device():
    made = torch.cuda.FloatTensor(2, device="cuda:1")
    assert made.device == torch.device("cuda", 1) and made.dtype is torch.float32
    assert torch.cuda.LongTensor([1, 2], device=torch.device("cuda", 1)).tolist() == [1, 2]
    assert torch.cuda.DoubleTensor([1.0]).device == torch.device("cuda", 0)
    with torch.cuda.device(1):
        made = [torch.cuda.FloatTensor(1, device=each).get_device() for each in (0, 1, None)]
    assert made == [0, 1, 1]
    assert raised(lambda: torch.cuda.FloatTensor(2, device="cpu")) == (
        "legacy constructor expects device type: cuda but device type: cpu was passed"
    )


def test_an_old_type_may_be_the_default():
    with cudasim.simulate(gpus=2):
        assert torch.version.cuda.split(".")[0] == "13"
        torch.set_default_tensor_type(torch.cuda.DoubleTensor)
        x = torch.ones(2)
        assert x.device == torch.device("cuda", 0) and x.dtype is torch.float64
        assert torch.nn.Linear(1, 1).weight.is_cuda
        assert repr(torch.tensor([1])) == "tensor([1])"
        torch.set_default_tensor_type("torch.FloatTensor")
        assert str(torch.ones(1).device) == "cpu" and torch.ones(1).dtype is torch.float32
        assert repr(torch.ones(1, device="cuda")) == "tensor([1.], device='cuda:0')"
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        with pytest.raises(TypeError, match="only floating-point types are supported"):
            torch.set_default_tensor_type(torch.cuda.LongTensor)
    assert torch.ones(1).device.type == "cpu"  # the simulation takes its default with it
    assert torch.version.cuda is CUDA


@pytest.mark.usefixtures("two_gpus")
def test_a_context_is_made_where_a_gpu_is_used():
    def contexts():
        return [torch._C._cuda_hasPrimaryContext(index) for index in (0, 1)]

    assert contexts() == [False, False]
    torch.ones(1, device="cuda:1")
    assert contexts() == [False, True]
    torch.cuda.set_device(0)
    assert contexts() == [True, True]


SETTINGS = {
    "CublasWorkspaceSize": ("_cuda_getCublasWorkspaceSize", "_cuda_setCublasWorkspaceSize", 64),
    "benchmark": (
        "_cuda_get_conv_benchmark_empty_cache",
        "_cudnn_set_conv_benchmark_empty_cache",
        False,
    ),
    "tuning": ("_cuda_tunableop_is_enabled", "_cuda_tunableop_enable", True),
    "duration": (
        "_cuda_tunableop_get_max_tuning_duration",
        "_cuda_tunableop_set_max_tuning_duration",
        5,
    ),
}


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("get", "change", "value"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_libraries_are_kept(get, change, value):
    read = getattr(torch._C, get)
    before = read()
    assert before != value
    getattr(torch._C, change)(value)
    assert read() == value
    if "Workspace" in get:
        torch._C._cuda_resetCublasWorkspaceSize()
        assert read() == before
    assert torch._C._cuda_clearCublasWorkspaces() is None


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_lengths_of_ctc_loss_may_be_anywhere(home):
    x = torch.rand(4, 1, 3, requires_grad=True)
    lengths = torch.tensor([4], device=home), torch.tensor([2], device=home)
    targets = torch.tensor([[1, 2]])
    expected = F.ctc_loss(x.log_softmax(2), targets, *(each.cpu() for each in lengths))
    there = x.detach().cuda().requires_grad_()
    loss = F.ctc_loss(there.log_softmax(2), targets.cuda(), *lengths)
    assert loss.is_cuda and loss.item() == pytest.approx(expected.item())
    loss.backward(), expected.backward()
    assert torch.allclose(there.grad.cpu(), x.grad)
