"""Autograd and optimizers across devices."""

import torch
from torch import nn

from fidelity.asking import gpus, places, raised, warned


def gradients_are_where_their_leaves_are():
    w = torch.ones(2, device="cuda", requires_grad=True)
    (w * 3).sum().backward()
    return repr(w.grad)


def gradients_travel_home():
    w = torch.ones(2, requires_grad=True)
    (w.cuda() * 3).sum().backward()
    return repr(w.grad)


def gradients_travel_through_copies():
    w, target = torch.ones(2, requires_grad=True), torch.zeros(2, device="cuda")
    target.copy_(w)
    (target * 2).sum().backward()
    return repr(target), repr(w.grad)


def a_moved_tensor_gets_no_gradient():
    w = torch.ones(2, requires_grad=True).cuda()
    w.sum().backward()
    return w.is_leaf, [warning.partition(":")[0] for warning in warned(lambda: w.grad)]


def names_of_moves_in_the_graph():
    w = torch.ones(2, requires_grad=True)
    there = w.cuda()
    return type(there.grad_fn).__name__, type(there.cpu().grad_fn).__name__


def a_gradient_of_another_device_is_refused():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: setattr(w, "grad", torch.ones(2)))


def backward_from_a_gradient_of_another_device():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: (w * 2).backward(torch.ones(2)))


def backward_wants_a_number():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: (w * 2).backward())


def backward_twice():
    w = torch.ones(2, device="cuda", requires_grad=True)
    y = (w * w).sum()
    y.backward()
    return raised(y.backward)


def gradients_by_name():
    w = torch.ones(2, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad((w**2).sum(), w, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), w)
    return repr(gradient), repr(second)


def integers_have_no_gradient():
    return raised(
        lambda: torch.ones(2, dtype=torch.int, device="cuda").requires_grad_()
    )


def leaves_are_not_changed_in_place():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: w.add_(1))


def a_value_that_backward_needs_is_not_changed_in_place():
    w = torch.ones(2, device="cuda", requires_grad=True)
    y = w.exp()
    y.add_(1)
    return raised(y.sum().backward)


def functions_return_gradients_where_their_inputs_are():
    class Home(torch.autograd.Function):
        @staticmethod
        def forward(ctx, number, x):
            return x * number

        @staticmethod
        def backward(ctx, gradient):
            return None, gradient.cpu()

    w, one = (
        torch.ones(shape, device="cuda", requires_grad=True) for shape in ((2,), ())
    )
    said = [raised(Home.apply(2, x).sum().backward) for x in (w, w * 1)]
    Home.apply(2, one).backward()  # a single number is moved
    return said, repr(one.grad)


def hooks_leave_gradients_on_their_type_of_device():
    w, net = torch.ones(2, device="cuda", requires_grad=True), nn.Linear(3, 2).cuda()
    w.register_hook(lambda gradient: gradient.cpu())
    net.register_full_backward_hook(lambda *_: (torch.ones(1, 3),))
    y = net(torch.ones(1, 3, device="cuda", requires_grad=True))
    return raised((w * 2).sum().backward), raised(y.sum().backward)


def hooks_change_gradients():
    w = torch.ones(2, device="cuda", requires_grad=True)
    w.register_hook(lambda gradient: gradient * 2)
    w.sum().backward()
    return repr(w.grad)


def changed_values_are_named_by_their_type():
    def changed(x, place):
        y = x.exp()
        z = y.to(place) * 1
        y.add_(1)
        return raised(z.sum().backward)

    w, v = (
        torch.ones(2, requires_grad=True),
        torch.ones(2, device="cuda", requires_grad=True),
    )
    return [changed(w, "cpu"), changed(w, "cuda"), changed(v, "cuda")]


def hooks_get_gradients_of_the_gpu():
    w, seen = torch.ones(2, device="cuda", requires_grad=True), []
    w.register_hook(lambda gradient: seen.append(str(gradient.device)))
    w.sum().backward()
    return seen


def checkpoints_recompute_on_the_gpu():
    net, x = nn.Linear(2, 1).cuda(), torch.ones(1, 2, device="cuda", requires_grad=True)
    torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
    return places(net.weight.grad, x.grad)


def an_optimizer_made_before_the_move():
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net.cuda()
    net(torch.ones(1, 1, device="cuda")).sum().backward()
    optimizer.step()
    return repr(net.weight)


def the_state_of_an_optimizer():
    net = nn.Linear(1, 1, bias=False).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 1, device="cuda")).sum().backward()
    optimizer.step()
    return {
        name: str(value.device) for name, value in optimizer.state[net.weight].items()
    }


def the_state_of_a_fused_optimizer():
    net = nn.Linear(1, 1, bias=False).cuda()
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    net(torch.ones(1, 1, device="cuda")).sum().backward()
    optimizer.step()
    return {
        name: str(value.device) for name, value in optimizer.state[net.weight].items()
    }


def a_network_moved_after_the_first_step():
    def train(optimizer):
        for place in ("cpu", "cuda"):
            net.to(place)(torch.ones(1, 1, device=place)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    told = []
    for foreach in (False, True):
        for kind, options in (
            (torch.optim.SGD, {"momentum": 0.9}),
            (torch.optim.Adam, {}),
        ):
            net = nn.Linear(1, 1)
            optimizer = kind(net.parameters(), lr=1.0, foreach=foreach, **options)
            told.append(raised(lambda optimizer=optimizer: train(optimizer)))
    return told


def a_network_without_momentum_may_be_moved():
    net = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for place in ("cpu", "cuda", "cpu"):
        net.to(place)(torch.ones(1, 1, device=place)).sum().backward()
        optimizer.step()
    return places(net.weight, net.weight.grad)


def a_saved_state_follows_its_parameters():
    net = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    there = nn.Linear(1, 1, bias=False).cuda()
    other = torch.optim.Adam(there.parameters())
    other.load_state_dict(optimizer.state_dict())
    return {
        name: str(value.device) for name, value in other.state[there.weight].items()
    }


def a_capturable_optimizer_wants_a_gpu():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.Adam([weight], capturable=True)
    weight.sum().backward()
    return raised(optimizer.step)


def a_learning_rate_may_be_a_number_on_the_gpu():
    w, rate = (
        torch.ones(1, device="cuda", requires_grad=True),
        torch.tensor(0.5, device="cuda"),
    )
    optimizer = torch.optim.Adam([w], lr=rate, capturable=True)
    w.sum().backward()
    optimizer.step()
    return repr(w)


def gradients_are_clipped_on_the_gpu():
    w = torch.ones(4, device="cuda", requires_grad=True)
    (w * 2).sum().backward()
    norm = nn.utils.clip_grad_norm_([w], 1.0)
    return repr(norm), str(w.grad.device)


def parameters_of_two_devices_are_clipped_together():
    w, v = (
        torch.ones(4, device="cuda", requires_grad=True),
        torch.ones(4, requires_grad=True),
    )
    w.sum().backward()
    v.sum().backward()
    return raised(lambda: nn.utils.clip_grad_norm_([w, v], 1.0))


def parameters_of_two_devices_are_not_one_vector():
    return raised(
        lambda: nn.utils.parameters_to_vector(
            [torch.ones(1, device="cuda"), torch.ones(1)]
        )
    )


def a_step_is_as_on_the_cpu():
    told = []
    for place in ("cpu", "cuda"):
        w = torch.ones(2, device=place, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.5, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            (w * 2).sum().backward()
            optimizer.step()
        told.append(w.tolist())
    return told


@gpus(2)
def gradients_travel_between_gpus():
    w = torch.ones(2, device="cuda:0", requires_grad=True)
    y = w.to("cuda:1", torch.float64)
    (y * 3).sum().backward()
    return repr(y), repr(w.grad)


@gpus(2)
def gradients_of_gradients_travel_too():
    w = torch.ones(2, device="cuda:0", requires_grad=True)
    (first,) = torch.autograd.grad((w.cuda(1) ** 3).sum(), w, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), w)
    return repr(first), repr(second)


@gpus(2)
def gradients_in_a_batch_are_on_their_gpu():
    numbers, batch = (
        torch.tensor([1.0, 4.0, 2.0, 3.0]).cuda(1),
        torch.arange(6.0).view(3, 2).cuda(1),
    )
    told = []
    for reduction in ("sum", "mean", "max", "min", "prod"):
        lengths, x = (
            torch.tensor([1, 3], device="cuda:1"),
            numbers.clone().requires_grad_(),
        )
        y = torch.segment_reduce(x, reduction, lengths=lengths)
        told.append(repr(torch.autograd.grad(y, x, batch, is_grads_batched=True)))
    return told


@gpus(2)
def zeros_of_a_result_that_is_not_used_are_on_its_gpu():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.to("cuda:1")

        @staticmethod
        def backward(ctx, first, second):
            seen.extend(places(first, second))
            return first + second.to(first.device)

    seen, w = [], torch.ones(2, device="cuda:0", requires_grad=True)
    Two.apply(w)[0].sum().backward()
    return seen, repr(w.grad)


@gpus(2)
def gradients_of_the_other_gpu_are_refused():
    class Away(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.to("cuda:1")

    w, other = (
        torch.ones(2, device="cuda:0", requires_grad=True),
        torch.ones(2, device="cuda:1"),
    )
    return [
        raised(Away.apply(w).sum().backward),
        raised(lambda: (w * 2).backward(other)),
        raised(lambda: torch.autograd.grad(w * 2, w, other)),
        raised(lambda: setattr(w, "grad", other)),
        raised(lambda: w.sum().backward(torch.tensor(3.0))),  # a single number is moved
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


@gpus(2)
def one_optimizer_for_two_gpus():
    weights = [torch.ones(1, device=f"cuda:{i}", requires_grad=True) for i in (0, 1)]
    optimizer = torch.optim.SGD(weights, lr=0.5)
    sum(w.sum().cpu() for w in weights).backward()
    optimizer.step()
    return [repr(w) for w in weights]
