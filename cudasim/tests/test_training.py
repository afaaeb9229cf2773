"""Modules, optimizers and what training is made of, on simulated GPUs: as on the CPU, but there."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("two_gpus")

CPU = torch.device("cpu")
GPU0 = torch.device("cuda:0")
GPU1 = torch.device("cuda:1")


def devices(module):
    return {tensor.device for tensor in (*module.parameters(), *module.buffers())}


OPTIMIZERS = []
for value in vars(torch.optim).values():
    if isinstance(value, type) and value is not torch.optim.Optimizer:
        OPTIMIZERS.append(value.__name__)
OPTIONS = {
    "": {},
    "foreach": {"foreach": True},
    "one by one": {"foreach": False},
    "fused": {"fused": True},
    "capturable": {"capturable": True},
}


def takes(name, options):
    """Whether an optimizer has these options, and this version of PyTorch fuses it on CUDA."""
    kind = getattr(torch.optim, name)
    if "fused" in options:
        source = inspect.getsource(inspect.getmodule(kind))
        if "cuda_unsupported=True" in source:
            return False
    parameters = inspect.signature(kind).parameters
    return set(options) <= set(parameters)


def variants():
    """Return each optimizer with each of the options that it takes."""
    cases = []
    for name in sorted(OPTIMIZERS):
        for words, options in OPTIONS.items():
            if takes(name, options):
                case = pytest.param(name, options, id=f"{name} {words}".strip())
                cases.append(case)
    return cases


def steps(name, device, options):
    """Take three steps, and return the parameters and the state of the first one."""
    torch.manual_seed(0)
    first = torch.randn(3, 4).to(device).requires_grad_()
    second = torch.randn(3, 4).to(device).requires_grad_()
    make_optimizer = getattr(torch.optim, name)
    optimizer = make_optimizer([first, second], **options)
    rows = torch.tensor([0, 2], device=device)

    def loss_of(parameter):
        if name == "SparseAdam":
            chosen = F.embedding(rows, parameter, sparse=True)
            return (chosen**2).sum()
        return ((parameter - 1) ** 2).sum()

    def closure():
        optimizer.zero_grad()
        loss = loss_of(first) + loss_of(second)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return [first, second], optimizer.state[first]


@pytest.mark.parametrize("name, options", variants())
def test_every_optimizer_steps_as_on_the_cpu(name, options):
    on_gpu, state = steps(name, GPU1, options)
    of_cpu = dict(options)
    of_cpu.pop("capturable", None)  # which is for GPUs only
    on_cpu, _ = steps(name, CPU, of_cpu)
    for parameter, twin in zip(on_gpu, on_cpu, strict=True):
        assert parameter.device == GPU1
        result = parameter.detach().cpu()
        torch.testing.assert_close(result, twin.detach(), rtol=1e-6, atol=1e-6)

    # ASGD keeps its count beside the parameters, whatever is asked.
    beside = name == "ASGD" or "capturable" in options or "fused" in options
    for key, value in state.items():
        if not isinstance(value, torch.Tensor):
            continue
        if key in ("step", "mu_product"):
            assert value.device == (GPU1 if beside else CPU), key
        else:
            assert value.device == GPU1, key


def train(first, second, name, options):
    """Train a net in two parts and types, and return its loss, parameters and buffers."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3),
        nn.Flatten(),
    ]
    lower = nn.Sequential(*layers).to(first)
    upper = nn.Linear(32, 3).to(second).double()
    net = nn.ModuleList([lower, upper])
    make_optimizer = getattr(torch.optim, name)
    optimizer = make_optimizer(net.parameters(), lr=0.01, **options)
    for _ in range(5):
        x = torch.rand(16, 1, 8, 8).to(first)
        y = torch.randint(3, (16,)).to(second)
        optimizer.zero_grad()
        hidden = lower(x).to(second).double()
        loss = F.cross_entropy(upper(hidden), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
    assert devices(lower) == {first}
    assert devices(upper) == {second}
    return [loss.cpu(), *net.cpu().state_dict().values()]


@pytest.mark.parametrize(
    "name, options", [("SGD", {}), ("Adam", {}), ("Adam", {"fused": True})]
)
def test_training_on_two_gpus_is_as_on_the_cpu(name, options):
    on_gpus = train(GPU0, GPU1, name, options)
    on_cpu = train(CPU, CPU, name, options)
    torch.testing.assert_close(on_gpus, on_cpu, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes_on_the_gpu(reentrant):
    layers = nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)
    net = nn.Sequential(*layers).cuda(1)
    x = torch.rand(6, 4, device="cuda:1", requires_grad=True)

    def gradients(compute):
        x.grad = None
        net.zero_grad()
        torch.cuda.manual_seed_all(1)
        compute(x).sum().backward()
        return [x.grad, *(parameter.grad for parameter in net.parameters())]

    def recompute(x):
        return checkpoint(net, x, use_reentrant=reentrant)

    plain = gradients(net)
    recomputed = gradients(recompute)
    assert {gradient.device for gradient in recomputed} == {GPU1}
    torch.testing.assert_close(recomputed, plain, rtol=0, atol=0)
