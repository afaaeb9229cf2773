"""`torch.use_deterministic_algorithms`: what is refused, and what is computed all the same."""

import pytest
import torch
from calls import raised


@pytest.mark.parametrize("strict", [True, False])
def test_what_the_pytorch_in_use_documents_decides(two_gpus, strict):
    documentation = torch.use_deterministic_algorithms.__doc__
    refused = documentation.rpartition("will throw a")[2]
    x = torch.rand(3, device="cuda")
    torch.use_deterministic_algorithms(strict)
    try:
        if strict and "kthvalue" in refused:
            words = raised(lambda: x.kthvalue(1))
            assert words.startswith("kthvalue CUDA does not have")
        else:
            assert x.kthvalue(1).indices.device.type == "cuda"
    finally:
        torch.use_deterministic_algorithms(False)


def test_kernels_that_no_documentation_lists(two_gpus):
    """They call `alertNotDeterministic`: Indexing.cu and ScatterGatherKernel.cu."""
    x = torch.ones(3, device="cuda")
    at = torch.tensor([0, 1], device="cuda")
    y = torch.ones(2, device="cuda")
    out = torch.empty(3, device="cuda")
    calls = {
        "index_reduce_cuda": (
            lambda: x.index_reduce(0, at, y, "amax"),
            lambda: x.index_reduce_(0, at, y, "prod"),
            lambda: torch.index_reduce(x, 0, at, y, "mean", out=out),
        ),
        "scatter_reduce_cuda_prod_": (lambda: x.scatter_reduce(0, at, y, "prod"),),
        "scatter_reduce_cuda_kernel": (
            lambda: x.scatter(0, at, y, reduce="multiply"),
            lambda: x.scatter_(0, at, y, reduce="multiply"),
        ),
        "put_": (lambda: x.put(at, y, accumulate=True),),
    }
    torch.use_deterministic_algorithms(True)
    try:
        for kernel, refused in calls.items():
            for call in refused:
                assert raised(call).startswith(f"{kernel} does not have a")
        assert x.scatter(0, at, y, reduce="add").tolist() == [2, 2, 1]
        x.cpu().index_reduce(0, at.cpu(), y.cpu(), "amax")
    finally:
        torch.use_deterministic_algorithms(False)


def test_kernels_that_are_documented_but_have_become_deterministic(two_gpus):
    """See https://github.com/pytorch/pytorch/pull/136224 (cumsum) and 136241 (padding)."""
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    image = torch.ones(1, 1, 3, 3, device="cuda", requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        assert x.cumsum(1)[0].tolist() == [1, 2, 3]
        assert x.flatten().cumsum(0)[-1].item() == 6
        torch.nn.functional.pad(image, (1, 1, 1, 1), "reflect").sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    # In each dimension the middle is read three times (1 0 1 2 1), the others once.
    assert image.grad.tolist() == [[[[1, 3, 1], [3, 9, 3], [1, 3, 1]]]]
