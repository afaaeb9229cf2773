"""Operands that disagree on their device are refused in CUDA's own words, class by class."""

import pytest
import torch
import torch.nn.functional as F
from calls import raised
from torch import nn

from cudasim.dispatch.native_functions import checking_kernel

pytestmark = pytest.mark.usefixtures("two_gpus")

G0, G1, CPU = "cuda:0", "cuda:1", "cpu"


def ones(*shape, on=G0):
    return torch.ones(*shape, device=on)


def zeros(*shape, on=G0):
    return torch.zeros(*shape, device=on, dtype=torch.long)


def loss(scores, labels):
    return F.cross_entropy(ones(2, 3, on=scores), zeros(2, on=labels))


def mask():
    return ones(3, on=CPU) > 0


def two_devices(first, second):
    return (
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


def argument(name, where, others, kernel):
    return (
        f"Expected all tensors to be on the same device, but got {name} is on {where}, different "
        f"from other tensors on {others} (when checking argument in method wrapper_CUDA_{kernel})"
    )


@pytest.mark.parametrize(
    ("first", "second", "call"),
    [
        (G0, G1, lambda: ones(3) + ones(3, on=G1)),
        (G0, CPU, lambda: ones(3) - ones(3, on=CPU)),
        (G0, CPU, lambda: ones(3, on=CPU) / ones(3)),
        (G0, G1, lambda: ones(3).add_(ones(3, on=G1))),
        (G0, CPU, lambda: torch.add(ones(3), ones(3), out=ones(3, on=CPU))),
        (G0, G1, lambda: torch.addcmul(ones(3), ones(3), ones(3, on=G1))),
        (G0, G1, lambda: F.mse_loss(ones(2), ones(2, on=G1))),
        (G0, G1, lambda: torch._foreach_add([ones(2)], [ones(2, on=G1)])),
    ],
)
def test_elementwise(first, second, call):
    assert raised(call) == two_devices(first, second)


def test_a_number_may_ride_along_but_not_be_written_to():
    assert (ones(3) * torch.tensor(2.0)).device == torch.device(G0)
    total = torch.tensor(0.0)
    with pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu!"):
        total += ones(3).sum()


@pytest.mark.parametrize(
    ("name", "where", "others", "kernel", "call"),
    [
        ("mat2", G1, G0, "mm", lambda: ones(2, 3) @ ones(3, 2, on=G1)),
        ("mat2", G0, CPU, "mm", lambda: ones(2, 3, on=CPU) @ ones(3, 2)),
        ("mat2", CPU, G0, "addmm", lambda: torch.addmm(ones(2), ones(2, 3), ones(3, 2, on=CPU))),
        ("tensor", G1, G0, "_dot", lambda: torch.dot(ones(2), ones(2, on=G1))),
        ("mat", G0, G1, "addmv_", lambda: torch.mv(ones(2, 2), ones(2, on=G1))),
        ("mat1", CPU, G0, "addmm", lambda: nn.Linear(3, 2).cuda()(ones(2, 3, on=CPU))),
        ("mat1", G0, CPU, "addmm", lambda: nn.Linear(3, 2)(ones(2, 3))),
        ("index", CPU, G0, "_index_select", lambda: nn.Embedding(4, 2).cuda()(zeros(3, on=CPU))),
        ("index", G0, CPU, "_index_select", lambda: nn.Embedding(4, 2)(zeros(3))),
        ("src", CPU, G0, "scatter_src", lambda: ones(3).scatter(0, zeros(1), ones(1, on=CPU))),
        ("tensors", G1, G0, "cat", lambda: torch.cat([ones(2), ones(2, on=G1)])),
        ("tensors", G1, G0, "cat", lambda: torch.stack([ones(2), ones(2, on=G1)])),
        ("target", CPU, G0, "nll_loss_forward", lambda: loss(G0, CPU)),
        ("weight", CPU, G0, "_native_batch_norm", lambda: nn.BatchNorm1d(3)(ones(2, 3))),
        ("weight", CPU, G0, "_cudnn_batch_norm", lambda: nn.BatchNorm2d(3)(ones(2, 3, 4, 4))),
        ("mask", CPU, G0, "_masked_scatter_", lambda: ones(3).masked_scatter(mask(), ones(3))),
    ],
)
def test_an_argument_elsewhere(name, where, others, kernel, call):
    assert raised(call) == argument(name, where, others, kernel)


TYPES = "Input type ({}) and weight type ({}) should be the same"
MKLDNN = " or input should be a MKLDNN tensor and weight is a dense tensor"


@pytest.mark.parametrize(
    ("image", "weight", "batch", "text"),
    [
        (G0, CPU, 2, TYPES.format("torch.cuda.FloatTensor", "torch.FloatTensor")),
        (CPU, G0, 2, TYPES.format("torch.FloatTensor", "torch.cuda.FloatTensor") + MKLDNN),
        (CPU, G0, 1, argument("weight", G0, CPU, "__slow_conv2d_forward")),
        (G0, G1, 2, argument("weight", G1, G0, "_cudnn_convolution")),
    ],
)
def test_convolution(image, weight, batch, text):
    layer = nn.Conv2d(1, 1, 3).to(weight)
    assert raised(lambda: layer(ones(batch, 1, 5, 5, on=image))) == text


@pytest.mark.parametrize("indexed, index", [(G0, G1), (CPU, G0)])
def test_indices(indexed, index):
    assert raised(lambda: ones(3, on=indexed)[zeros(1, on=index)]) == (
        f"indices should be either on cpu or on the same device as the indexed tensor ({indexed})"
    )


def test_the_kernels_that_check_are_those_of_native_functions():
    known = ("mm", "wrapper_CUDA_mm"), ("index_select", "wrapper_CUDA__index_select")
    for name, kernel in known:
        assert checking_kernel(name) == kernel
    for name in ("add.Tensor", "mul.Tensor", "masked_fill_.Scalar", "_foreach_add.List"):
        assert checking_kernel(name) is None  # NoCheck: TensorIterator does it


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers(kind):
    x = ones(2, 1, 3)
    words = "Input and {0} tensors are not at the same device, found input tensor at {1} and {0} "
    parameter = f"{words}tensor at {{2}}".format
    assert raised(lambda: kind(3, 2).cuda()(x.cpu())) == parameter("parameter", CPU, G0)
    assert raised(lambda: kind(3, 2)(x)) == parameter("parameter", G0, CPU)
    hidden = torch.ones(1, 1, 2)
    hidden = (hidden.cuda(), hidden) if kind is nn.LSTM else hidden
    assert raised(lambda: kind(3, 2).cuda()(x, hidden)) == parameter("hidden", G0, CPU)
    assert kind(3, 2).cuda()(x)[0].device == torch.device(G0)


def test_quantiles():
    words = "quantile() q tensor must be on the same device as the input tensor"
    half = torch.tensor([0.5])
    for call in (torch.quantile, torch.nanquantile, torch.Tensor.quantile):
        assert raised(lambda call=call: call(ones(3), half)) == words
        assert call(ones(3), half.cuda()).device == call(ones(3), 0.5).device == torch.device(G0)


def test_solving_with_a_cholesky_factor():
    assert raised(lambda: torch.cholesky_solve(ones(2, 2), ones(2, 2, on=CPU))) == (
        "Expected b and A to be on the same device, but found b on cuda:0 and A on cpu instead."
    )


def test_masks_and_a_number_of_the_gpu():
    here, two = torch.zeros(2), torch.tensor(2.0, device=G0)
    for fill in (here.masked_fill, here.masked_fill_):
        words = "masked_fill_: Expected inputs to be on same device"
        assert raised(lambda fill=fill: fill(here > 0, two)) == words
    assert raised(lambda: ones(3).masked_fill(mask(), 0)) == (
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"
    )


def test_a_kernel_that_lacks_a_type_is_named_as_cudas():
    for name, call in (("bitwise_and", torch.bitwise_and), ("gcd", torch.gcd)):
        for on, suffix in ((G0, "cuda"), (CPU, "cpu")):
            with pytest.raises(NotImplementedError) as error:
                call(ones(2, on=on), ones(2, on=on))
            assert str(error.value) == f"\"{name}_{suffix}\" not implemented for 'Float'"
