"""Modules, optimizers and what training is made of, on simulated GPUs: as on the CPU, but there."""

import copy
import inspect
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("two_gpus")

CPU, GPU0, GPU1 = torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)


def devices(module):
    return {tensor.device for tensor in (*module.parameters(), *module.buffers())}


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_as_on_the_cpu_and_do_not_warn(kind, monkeypatch):
    # As on a build with CUDA, where packing the weights for cuDNN would be tried.
    monkeypatch.setattr(torch.backends.cudnn, "is_acceptable", lambda tensor: True)
    monkeypatch.setattr(torch, "_use_cudnn_rnn_flatten_weight", lambda: True)
    torch.manual_seed(0)
    home = kind(3, 4, num_layers=2, batch_first=True)
    x = torch.rand(2, 5, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        away = copy.deepcopy(home).to(1)
        out, _ = away(x.cuda(1))
        out.sum().backward()
    assert out.device == GPU1 and away.weight_hh_l1.grad.device == GPU1
    torch.testing.assert_close(out.cpu(), home(x)[0])


KINDS = {kind for kind in vars(torch.optim).values() if isinstance(kind, type)}
OPTIMIZERS = sorted(kind.__name__ for kind in KINDS - {torch.optim.Optimizer})
OPTIONS = (
    {},
    {"foreach": True},
    {"foreach": False},
    {"fused": True},
    {"capturable": True},
)


def takes(name, options):
    """Whether an optimizer has these options, and this version of PyTorch fuses it on CUDA."""
    kind = getattr(torch.optim, name)
    if "fused" in options and "cuda_unsupported=True" in inspect.getsource(
        inspect.getmodule(kind)
    ):
        return False
    return set(options) <= set(inspect.signature(kind).parameters)


VARIANTS = [
    pytest.param(name, options, id="-".join([name, *options]))
    for name in OPTIMIZERS
    for options in OPTIONS
    if takes(name, options)
]


def steps(name, device, options):
    """Three steps: (parameters, state of the first one)."""
    torch.manual_seed(0)
    parameters = [torch.randn(3, 4).to(device).requires_grad_() for _ in range(2)]
    optimizer = getattr(torch.optim, name)(parameters, **options)

    def closure():
        optimizer.zero_grad()
        if name == "SparseAdam":
            rows = torch.tensor([0, 2], device=device)
            loss = sum(
                (F.embedding(rows, p, sparse=True) ** 2).sum() for p in parameters
            )
        else:
            loss = sum(((p - 1) ** 2).sum() for p in parameters)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return parameters, optimizer.state[parameters[0]]


@pytest.mark.parametrize("name, options", VARIANTS)
def test_every_optimizer_steps_as_on_the_cpu_with_its_state_on_the_gpu(name, options):
    away, state = steps(name, GPU1, options)
    on_cpu = {key: value for key, value in options.items() if key != "capturable"}
    home, _ = steps(name, CPU, on_cpu)  # capturable is for GPUs only
    for one, other in zip(away, home, strict=True):
        assert one.device == GPU1
        torch.testing.assert_close(
            one.detach().cpu(), other.detach(), rtol=1e-6, atol=1e-6
        )
    where = {
        key: value.device
        for key, value in state.items()
        if isinstance(value, torch.Tensor)
    }
    counts = {key: where.pop(key) for key in ("step", "mu_product") if key in where}
    assert set(where.values()) <= {GPU1}
    # ASGD keeps its count beside the parameters, whatever is asked.
    beside = name == "ASGD" or {"capturable", "fused"} & {*options}
    assert set(counts.values()) <= {GPU1 if beside else CPU}


@pytest.mark.parametrize(
    "name, options", [("SGD", {}), ("Adam", {}), ("Adam", {"fused": True})]
)
def test_a_training_on_two_gpus_and_types_gives_what_it_gives_on_the_cpu(name, options):
    def train(first, second):
        torch.manual_seed(0)
        layers = (
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        lower = nn.Sequential(*layers, nn.Conv2d(4, 8, 3), nn.Flatten()).to(first)
        upper = nn.Linear(32, 3).to(second).double()
        net = nn.ModuleList([lower, upper])
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.01, **options)
        for _ in range(5):
            x, y = torch.rand(16, 1, 8, 8).to(first), torch.randint(3, (16,)).to(second)
            optimizer.zero_grad()
            loss = F.cross_entropy(upper(lower(x).to(second).double()), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            optimizer.step()
        assert (devices(lower), devices(upper)) == ({first}, {second})
        return [loss.cpu(), *net.cpu().state_dict().values()]

    for one, other in zip(train(GPU0, GPU1), train(CPU, CPU), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes_on_the_gpu(reentrant):
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).cuda(1)
    x = torch.rand(6, 4, device="cuda:1", requires_grad=True)

    def gradients(compute):
        x.grad = None
        net.zero_grad()
        torch.cuda.manual_seed_all(1)
        compute(x).sum().backward()
        return [x.grad, *(p.grad for p in net.parameters())]

    plain = gradients(net)
    again = gradients(lambda x: checkpoint(net, x, use_reentrant=reentrant))
    assert {gradient.device for gradient in again} == {GPU1}
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
