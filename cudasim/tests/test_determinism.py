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


def zeros(*shape, like):
    return torch.zeros(*shape, dtype=torch.int64, device=like.device)


def bag(x):
    """The largest of rows of `x`."""
    return F.embedding_bag(zeros(3, like=x), x, zeros(1, like=x), mode="max")


def ctc(x):
    """The loss of one sequence of two targets; lengths may be on the CPU."""
    lengths = torch.tensor([x.shape[0]]), torch.tensor([2])
    return F.ctc_loss(x.log_softmax(2), zeros(1, 2, like=x) + 1, *lengths)


def unpool(x):
    """`x` with zeros between."""
    return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)


REFUSED = {  # a function of a tensor, the shape of that; of some the gradient is refused
    "max_unpooling2d_forward_out": (unpool, (1, 1, 2, 2)),
    "nll_loss2d_forward_out_cuda_template": (
        lambda x: F.nll_loss(x, zeros(1, 2, 2, like=x)),
        (1, 3, 2, 2),
    ),
    "ctc_loss_backward_gpu": (ctc, (4, 1, 3)),
    "embedding_bag_backward_cuda_max": (bag, (2, 2)),
    "put_": (lambda x: x.put_(zeros(1, like=x), torch.ones_like(x[:1]), accumulate=True), (2,)),
    "_histc_cuda with floating point input": (torch.histc, (3,)),
    "_bincount_cuda": (lambda x: torch.bincount(zeros(3, like=x), x), (3,)),
    "median CUDA with indices output": (lambda x: x.median(0).values, (3,)),
    "cumsum_cuda_kernel": (lambda x: x.cumsum(0), (3,)),
    "scatter_reduce_cuda_kernel": (
        lambda x: x.scatter_reduce(0, zeros(1, 2, like=x), x, "prod"),
        (1, 2),
    ),
}
TOLD = "does not have a deterministic implementation, but you set "


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_deterministic_kernel_is_refused(name):
    function, shape = REFUSED[name]

    def work(device="cuda"):
        x = torch.rand(*shape, device=device, requires_grad="backward" in name)
        y = function(x)
        if x.requires_grad:
            y.sum().backward()

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


def test_what_the_pytorch_in_use_documents_decides():
    refused = torch.use_deterministic_algorithms.__doc__.rpartition("will throw a")[2]
    work = torch.rand(3, device="cuda").kthvalue
    if "kthvalue" in refused:
        assert raised(lambda: work(1)).startswith("kthvalue CUDA does not have")
    else:
        assert work(1).indices.device.type == "cuda"
