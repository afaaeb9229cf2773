"""Composites that look at devices themselves, which no operation of theirs would refuse."""

import torch
from torch import nn
from torch.cuda import comm

from fidelity.asking import places, raised

GPU = {"device": "cuda"}


def grids_and_blocks():
    x, y = torch.eye(2, **GPU), torch.ones(2, 2)
    return [
        raised(lambda: torch.meshgrid(x[0], y[0], indexing="ij")),
        raised(lambda: torch.block_diag(x, x, y)),
    ]


def products_of_several():
    x, y = torch.eye(2, **GPU), torch.ones(2, 2)
    return [
        raised(lambda: torch.linalg.multi_dot([x, y, x])),
        raised(lambda: torch.tensordot(x, x, 1, out=torch.empty(0))),
    ]


def places_to_split_at():
    x = torch.eye(2, **GPU)
    return raised(lambda: x.tensor_split(torch.tensor([1], **GPU)))


def windows_of_spectra():
    x, y = torch.eye(2, **GPU), torch.ones(2, 4, dtype=torch.cfloat)
    return [
        raised(
            lambda: torch.stft(x.view(-1), 2, window=torch.ones(2), return_complex=True)
        ),
        raised(lambda: torch.istft(y, 2, 1, 2, x[0])),
    ]


def quantiles():
    x, half = torch.ones(3, **GPU), torch.tensor([0.5])
    return [
        raised(lambda: torch.quantile(x, 0.5, out=torch.empty(()))),
        raised(lambda: torch.nanquantile(x, half)),
        raised(lambda: x.quantile(half)),
    ]


def results_of_linear_algebra():
    x, out = torch.eye(2, **GPU), torch.empty(())
    return [
        raised(lambda: torch.linalg.norm(out=out, A=x)),
        raised(lambda: torch.linalg.cond(x, out=out)),
        raised(lambda: torch.linalg.matrix_rank(x, out=out.long())),
    ]


def drivers_of_least_squares():
    x = torch.eye(2, **GPU)
    return raised(lambda: torch.linalg.lstsq(x, x, driver="gelsy")), raised(
        lambda: torch.linalg.lstsq(x, x, driver="gels")
    )


def compressed_tensors_of_parts():
    rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    return raised(lambda: torch.sparse_csr_tensor(rows, columns, torch.ones(2, **GPU)))


def vectors_and_matrices_are_not_gathered():
    x = torch.eye(2, **GPU)
    return raised(lambda: comm.gather((x, x[0])))


def states_of_an_lstm():
    net, x, y = nn.LSTM(2, 2, **GPU), torch.ones(2, 2, **GPU), torch.ones(1, 2)
    return raised(lambda: net(x, (x[:1], y))), raised(lambda: net(x, (y, y)))


def types_that_kernels_lack():
    pairs = [torch.ones(2, 2, **GPU)] * 2, [torch.ones(2, 2)] * 2
    functions = torch.bitwise_and, torch.gcd
    return [
        raised(lambda f=f, pair=pair: f(*pair)) for f in functions for pair in pairs
    ]


def a_rank_is_written_where_it_is_asked_for():
    x, out = torch.ones(2, 2, **GPU), torch.full((), 7, **GPU)
    same = torch.linalg.matrix_rank(x, out=out) is out
    return same, out.item(), torch.linalg.matrix_rank(x.cpu()).item()


def one_device_is_enough():
    x, out = torch.eye(2, **GPU), [torch.empty(0, **GPU) for _ in range(6)]
    net, index = nn.LSTM(2, 2, **GPU), torch.zeros(2, 2, dtype=torch.long, **GPU)
    here = torch.linalg.lstsq(
        torch.ones(2, 2), torch.ones(2, 2), driver="gelsd"
    ).solution
    return places(
        *torch.meshgrid(x[0], x[1], indexing="ij"),
        torch.block_diag(x, x),
        torch.linalg.multi_dot([x, x, x]),
        torch.tensordot(x, x, 1, out=out[0]),
        torch.inner(x, x, out=out[1]),
        torch.inner(input=x, other=x),
        torch.inner(x, other=x, out=out[2]),
        *x.tensor_split(torch.tensor([1])),
        *torch.tensor_split(x, 2),
        torch.stft(x.view(-1), 2, 1, window=x[0], return_complex=True),
        torch.quantile(x, 0.5, out=out[3]),
        torch.nanquantile(x, x[0]),
        *net(x, (x[:1], x[:1]))[1],
        torch.linalg.norm(x, out=out[4]),
        torch.linalg.pinv(x, out=out[5]),
        torch.linalg.lstsq(x, x, driver="gels").solution,
        torch.linalg.lstsq(input=x, b=x).solution,
        x.take_along_dim(index, 0),
        here,
    )
