"""Gradients and optimizers whose tensors are on several devices."""

import torch
from torch import nn

from fidelity.helpers import errors, gpus, raised


def a_gradient_of_another_device_is_refused():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: setattr(w, "grad", torch.ones(2)))


def the_state_of_an_optimizer():
    devices = []
    for fused in (False, True):
        weight = torch.ones(1, device="cuda", requires_grad=True)
        optimizer = torch.optim.Adam([weight], fused=fused)
        weight.sum().backward()
        optimizer.step()
        state = optimizer.state[weight]
        devices.append({name: str(value.device) for name, value in state.items()})
    return devices


def a_network_moved_after_the_first_step():
    def train(kind, **options):
        net = nn.Linear(1, 1)
        optimizer = kind(net.parameters(), lr=1.0, **options)
        for place in ("cpu", "cuda"):
            net.to(place)
            x = torch.ones(1, 1, device=place)
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return errors(
        lambda: train(torch.optim.SGD, momentum=0.9, foreach=False),
        lambda: train(torch.optim.Adam, foreach=False),
        lambda: train(torch.optim.SGD, momentum=0.9, foreach=True),
        lambda: train(torch.optim.Adam, foreach=True),
    )


def a_saved_state_follows_its_parameters():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    moved = torch.ones(1, device="cuda", requires_grad=True)
    other = torch.optim.Adam([moved])
    other.load_state_dict(optimizer.state_dict())
    state = other.state[moved]
    return {name: str(value.device) for name, value in state.items()}


def parameters_of_two_devices_are_clipped_together():
    w = torch.ones(4, device="cuda", requires_grad=True)
    v = torch.ones(4, requires_grad=True)
    w.sum().backward()
    v.sum().backward()
    return raised(lambda: nn.utils.clip_grad_norm_([w, v], 1.0))


@gpus(2)
def gradients_travel_between_gpus():
    w = torch.ones(2, device="cuda:0", requires_grad=True)
    y = w.to("cuda:1", torch.float64)
    (y * 3).sum().backward()
    return repr(y), repr(w.grad)


@gpus(2)
def gradients_of_the_other_gpu_are_refused():
    class Away(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.to("cuda:1")

    w = torch.ones(2, device="cuda:0", requires_grad=True)
    other = torch.ones(2, device="cuda:1")
    return [
        raised(Away.apply(w).sum().backward),
        raised(lambda: (w * 2).backward(other)),
        raised(lambda: torch.autograd.grad(w * 2, w, other)),
        raised(lambda: setattr(w, "grad", other)),
        # A single number is moved.
        raised(lambda: w.sum().backward(torch.tensor(3.0))),
        repr(w.grad),
    ]


@gpus(2)
def a_network_moved_to_the_other_gpu_after_the_first_step():
    net = nn.Linear(4, 1).to(0)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 4, device=0)).sum().backward()
    optimizer.step()
    net.to(1)
    return raised(optimizer.step)
