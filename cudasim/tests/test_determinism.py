"""`torch.use_deterministic_algorithms`: what CUDA refuses, by the documented list of operations."""

import pytest
import torch
from calls import raised
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("two_gpus")


@pytest.fixture(autouse=True)
def strict():
    """Deterministic algorithms only, for the length of a test."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def backward(function, *shape, **options):
    """What computes the gradient of `function` at a tensor of this `shape`."""

    def compute(device="cuda"):
        x = torch.rand(*shape, device=device, **options, requires_grad=True)
        function(x).sum().backward()

    return compute


def forward(function, *shape):
    """What computes `function` of a tensor of this `shape`."""
    return lambda device="cuda": function(torch.rand(*shape, device=device))


def bag(x):
    """The largest of rows of `x`."""
    rows = torch.tensor([0, 1, 1], device=x.device)
    return F.embedding_bag(rows, x, torch.tensor([0, 2], device=x.device), mode="max")


def ctc(x):
    """The loss of one sequence of two targets; lengths may be on the CPU."""
    targets = torch.tensor([[1, 2]], device=x.device)
    lengths = torch.tensor([x.shape[0]]), torch.tensor([2])
    return F.ctc_loss(x.log_softmax(2), targets, *lengths)


def unpool(x):
    """`x` with zeros between."""
    return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)


def scatter(x):
    """Products of the rows of `x`."""
    return x.scatter_reduce(0, torch.zeros(1, 2, dtype=torch.int64, device=x.device), x, "prod")


def loss(x):
    """The loss of pictures."""
    return F.nll_loss(x, torch.zeros(1, 2, 2, dtype=torch.int64, device=x.device))


REFUSED = {
    "max_unpooling2d_forward_out": forward(unpool, 1, 1, 2, 2),
    "nll_loss2d_forward_out_cuda_template": forward(loss, 1, 3, 2, 2),
    "ctc_loss_backward_gpu": backward(ctc, 4, 1, 3),
    "embedding_bag_backward_cuda_max": backward(bag, 2, 2),
    "put_": forward(
        lambda x: x.put_(
            torch.tensor([0], device=x.device), torch.ones(1, device=x.device), accumulate=True
        ),
        2,
        2,
    ),
    "_histc_cuda with floating point input": forward(torch.histc, 3),
    "_bincount_cuda": forward(
        lambda x: torch.bincount(torch.zeros(3, dtype=torch.int64, device=x.device), x), 3
    ),
    "median CUDA with indices output": forward(lambda x: x.median(0), 3),
    "cumsum_cuda_kernel": forward(lambda x: x.cumsum(0), 3),
    "scatter_reduce_cuda_kernel": forward(scatter, 1, 2),
}
TOLD = "does not have a deterministic implementation, but you set "


@pytest.mark.parametrize(("name", "work"), REFUSED.items(), ids=REFUSED)
def test_what_has_no_deterministic_kernel_is_refused(name, work):
    said = raised(work)
    assert said.startswith(f"{name} {TOLD}'torch.use_deterministic_algorithms(True)'. You can turn")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=f"^{name} {TOLD}'torch.use_deterministic_algorithms"):
        work()
    torch.use_deterministic_algorithms(False)
    work()
    torch.use_deterministic_algorithms(True)
    if name != "max_unpooling2d_forward_out":  # the CPU's has the same fault
        work("cpu")


def test_what_is_deterministic_is_not():
    x = torch.rand(3, 3, device="cuda", requires_grad=True)
    (x @ x)[torch.tensor([0, 0])].sum().backward()
    torch.arange(3, device="cuda").cumsum(0)
    torch.histc(torch.arange(3.0))
    torch.bincount(torch.arange(3, device="cuda"))
    x.median(), x.sort(), x.scatter_add(0, torch.zeros_like(x, dtype=torch.int64), x)
    nn.Conv2d(1, 1, 2).cuda()(torch.rand(1, 1, 3, 3, device="cuda")).sum().backward()
    F.interpolate(torch.rand(1, 1, 2, 2, device="cuda"), 4, mode="bilinear")


def test_what_the_pytorch_in_use_documents_decides(two_gpus):
    refused = torch.use_deterministic_algorithms.__doc__.rpartition("will throw a")[2]
    work = torch.rand(3, device="cuda").kthvalue
    if "kthvalue" in refused:
        assert raised(lambda: work(1)).startswith("kthvalue CUDA does not have")
    else:
        assert work(1).indices.device.type == "cuda"
