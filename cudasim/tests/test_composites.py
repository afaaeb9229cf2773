"""Composites that look at devices themselves, which no operation of theirs would refuse."""

import pytest
import torch
from calls import raised
from torch import nn
from torch.cuda import comm

HOST = torch.ones(2, 2)


@pytest.fixture
def x(two_gpus):
    return torch.eye(2, device="cuda:0")


COMPOSITES = {
    "meshgrid": (
        lambda x: torch.meshgrid(x[0], HOST[0], indexing="ij"),
        "meshgrid expects all tensors to have the same device",
    ),
    "block_diag": (
        lambda x: torch.block_diag(x, x, HOST),
        "torch.block_diag: input tensors must all be on the same device. Input 0 is on device "
        "cuda:0 and input 2 is on device cpu",
    ),
    "multi_dot": (
        lambda x: torch.linalg.multi_dot([x, HOST, x]),
        "multi_dot(): all tensors must be on the same device but tensor 0 is on cuda:0 and tensor "
        "1 on cpu",
    ),
    "tensordot": (
        lambda x: torch.tensordot(x, x, 1, out=torch.empty(0)),
        "tensordot: Expected the output and input tensors to be on the same device, but got the "
        "output tensor on cpu, input tensor a on cuda:0, and input tensor b on cuda:0",
    ),
    "tensor_split": (
        lambda x: x.tensor_split(torch.tensor([1], device="cuda:0")),
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on cuda:0",
    ),
    "stft": (
        lambda x: torch.stft(x.view(-1), 2, window=HOST[0], return_complex=True),
        "stft input and window must be on the same device but got self on cuda:0 and window on cpu",
    ),
    "istft": (
        lambda x: torch.istft(torch.ones(2, 4, dtype=torch.cfloat), 2, 1, 2, x[0]),
        "istft input and window must be on the same device but got self on cpu and window on "
        "cuda:0",
    ),
    "an lstm's state": (
        lambda x: nn.LSTM(2, 2, device="cuda")(x, (x[:1], HOST[:1])),
        "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and "
        "hidden tensor at cpu",
    ),
    "nanquantile": (
        lambda x: torch.nanquantile(x, HOST[0]),
        "quantile() q tensor must be on the same device as the input tensor",
    ),
    "quantile's result": (
        lambda x: torch.quantile(x, 0.5, out=torch.empty(())),
        "quantile() out tensor must be on the same device as the input tensor",
    ),
    "norm": (
        lambda x: torch.linalg.norm(out=torch.empty(()), A=x),
        "Expected all tensors to be on the same device, but got out is on cpu, different from "
        "other tensors on cuda:0 (when checking argument in method "
        "wrapper_CUDA_linalg_vector_norm_out_out)",
    ),
    "cond": (
        lambda x: torch.linalg.cond(x, out=torch.empty(())),
        "linalg.cond: Expected result and input tensors to be on the same device, but got result "
        "on cpu and input on cuda:0",
    ),
    "matrix_rank": (
        lambda x: torch.linalg.matrix_rank(x, out=torch.empty((), dtype=torch.int64)),
        "torch.linalg.matrix_rank: Expected result and input tensors to be on the same device, "
        "but got result on cpu and input on cuda:0",
    ),
    "lstsq": (
        lambda x: torch.linalg.lstsq(x, x, driver="gelsy"),
        "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA",
    ),
    "sparse_csr_tensor": (
        lambda x: torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), x[0]),
        "device of crow_indices (=cpu) must match device of values (=cuda:0)",
    ),
    "gather": (
        lambda x: comm.gather((x, x[0])),
        "Expected all input tensors to have the same number of dimensions, but tensor at index "
        "1has 1 dimensions, (expected 2)",
    ),
}


@pytest.mark.parametrize(("call", "said"), COMPOSITES.values(), ids=COMPOSITES)
def test_several_devices_are_refused_in_the_words_of_the_composite(x, call, said):
    assert raised(lambda: call(x)) == said


@pytest.mark.parametrize("name", ["bitwise_and", "gcd"])
def test_a_kernel_that_lacks_a_type_is_named_as_cudas_on_gpus_alone(x, name):
    for each, kind in ((x, "cuda"), (HOST, "cpu")):
        said = raised(lambda each=each: getattr(torch, name)(each, each), NotImplementedError)
        assert said == f"\"{name}_{kind}\" not implemented for 'Float'"


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
    assert torch.linalg.lstsq(HOST, HOST, driver="gelsd").solution.device.type == "cpu"
