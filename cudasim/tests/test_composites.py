"""Composites that look at devices themselves: their words are asked by `fidelity/programs`."""

import pytest
import torch
from torch import nn


@pytest.fixture
def x(two_gpus):
    return torch.eye(2, device="cuda:0")


def test_a_rank_is_written_where_it_is_asked_for(x):
    out = torch.full((), 7, device="cuda:0")
    assert torch.linalg.matrix_rank(torch.ones_like(x), out=out) is out
    assert out.item() == 1 and torch.linalg.matrix_rank(torch.eye(3)).item() == 3


def test_one_device_is_enough(x):
    def out(*shape):
        return torch.empty(*shape, device="cuda:0")

    results = [
        *torch.meshgrid(x[0], x[1], indexing="ij"),
        torch.block_diag(x, x),
        torch.linalg.multi_dot([x, x, x]),
        torch.tensordot(x, x, 1, out=out(0)),
        torch.inner(x, x, out=out(0)),
        torch.inner(input=x, other=x),
        torch.inner(x, other=x, out=out(0)),
        *x.tensor_split(torch.tensor([1])),
        *torch.tensor_split(x, 2),
        torch.stft(x.view(-1), 2, 1, window=x[0], return_complex=True),
        torch.quantile(x, 0.5, out=out(())),
        torch.nanquantile(x, x[0]),
        *nn.LSTM(2, 2, device="cuda")(x, (x[:1], x[:1]))[1],
        torch.linalg.norm(x, out=out(())),
        torch.linalg.pinv(x, out=out(0)),
        torch.linalg.lstsq(x, x, driver="gels").solution,
        torch.linalg.lstsq(input=x, b=x).solution,
        x.take_along_dim(torch.zeros(2, 2, dtype=torch.int64, device="cuda:0"), 0),
    ]
    assert {str(result.device) for result in results} == {"cuda:0"}
    here = torch.ones(2, 2)
    assert torch.linalg.lstsq(here, here, driver="gelsd").solution.device.type == "cpu"
