"""Modules on a GPU: what moves, what stays, and what goes wrong."""

import copy

import torch
from torch import nn

from fidelity.asking import beginning, gpus, places, raised, warned


def parameters_and_buffers_move():
    net = nn.BatchNorm1d(2).to("cuda")
    return {name: str(value.device) for name, value in net.state_dict().items()}


def a_module_is_moved_in_place():
    net = nn.Linear(2, 1)
    weight = net.weight
    return net.cuda() is net, net.weight is weight, str(weight.device), net.cpu() is net


def every_spelling_of_a_move():
    targets = ["cuda", 0, torch.device("cuda:0"), torch.ones(1, device="cuda")]
    return [str(nn.Linear(1, 1).to(target).weight.device) for target in targets]


def device_and_type_together():
    net = nn.BatchNorm1d(2).to("cuda", torch.float16)
    return {name: str(value.dtype) for name, value in net.state_dict().items()}


def a_module_goes_where_a_tensor_is():
    there = torch.ones(1, device="cuda", dtype=torch.float64)
    weight = nn.Linear(2, 2).to(tensor=there).weight
    return places(weight, nn.Linear(2, 2).cuda().to(torch.ones(1)).weight), str(
        weight.dtype
    )


def a_plain_attribute_stays():
    net = nn.Linear(1, 1)
    net.scale = torch.ones(1)
    net.register_buffer("mean", torch.ones(1), persistent=False)
    net.cuda()
    return places(net.scale, net.mean)


def gradients_move_along():
    net = nn.Linear(1, 1)
    net(torch.ones(1, 1)).sum().backward()
    return places(net.cuda().weight.grad)


def tied_weights_stay_tied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.cuda()
    return net[1].weight is net[0].weight, len(list(net.parameters()))


def a_layer_is_born_on_the_gpu():
    net = nn.Linear(2, 1, device="cuda", dtype=torch.float64)
    with torch.device("cuda"):
        other = nn.Conv2d(1, 1, 3)
    return places(net.weight, other.bias), str(net.weight.dtype)


def a_lazy_layer_is_born_where_it_was_sent():
    net = nn.LazyLinear(2).cuda()
    before = str(net.weight.device), type(net.weight).__name__
    y = net(torch.ones(1, 3, device="cuda"))
    return before, str(net.weight.device), list(net.weight.shape), str(y.device)


def a_lazy_layer_has_no_shape_yet():
    net = nn.LazyLinear(2).cuda()
    return raised(lambda: net.weight.shape), repr(net.weight)


def a_lazy_layer_takes_its_first_input_from_the_cpu():
    return raised(lambda: nn.LazyLinear(2).cuda()(torch.ones(1, 3)))


def the_result_is_on_the_gpu():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1)
    ).cuda()
    y = net(torch.ones(2, 1, 5, 5, device="cuda"))
    return str(y.device), type(y.grad_fn).__name__, list(y.shape)


def a_state_is_copied_across_devices():
    net, other = nn.Linear(1, 1, bias=False).cuda(), nn.Linear(1, 1, bias=False)
    nn.init.constant_(other.weight, 3)
    told = net.load_state_dict(other.state_dict())
    return repr(net.weight), str(told)


def an_assigned_state_brings_its_device():
    net = nn.Linear(1, 1).cuda()
    net.load_state_dict(nn.Linear(1, 1).state_dict(), assign=True)
    return places(net.weight)


def a_state_that_does_not_fit():
    return raised(
        lambda: nn.Linear(2, 1).cuda().load_state_dict(nn.Linear(3, 1).state_dict())
    )


def copies_of_modules_stay():
    net = nn.Linear(1, 1).cuda()
    other = copy.deepcopy(net)
    return places(other.weight), other.weight.data_ptr() == net.weight.data_ptr()


def a_module_on_meta():
    net = nn.Linear(2, 2, device="meta")
    return raised(lambda: net.to("cuda")), places(net.to_empty(device="cuda").weight)


def a_module_to_a_gpu_that_is_not_there():
    net = nn.Linear(1, 1)
    return raised(lambda: net.to("cuda:99")), places(net.weight)


def a_module_to_what_is_no_place():
    net = nn.Linear(1, 1)
    return [
        raised(lambda target=target: net.to(target))
        for target in (torch.int, "gpu", 1.5)
    ]


def a_module_has_no_device():
    return raised(lambda: nn.Linear(1, 1).cuda().device)


def a_half_moved_network():
    net = nn.Sequential(nn.Linear(2, 2).cuda(), nn.Linear(2, 2))
    return raised(lambda: net(torch.ones(1, 2, device="cuda")))


def a_buffer_left_behind():
    net = nn.BatchNorm1d(2).cuda()
    net.running_mean = net.running_mean.cpu()
    return raised(lambda: net(torch.ones(2, 2, device="cuda")))


def hooks_see_the_gpu():
    net, seen = nn.Linear(1, 1).cuda(), []
    net.register_forward_hook(
        lambda module, inputs, output: seen.append(str(output.device))
    )
    net(torch.ones(1, 1, device="cuda"))
    return seen


def parallel_on_one_gpu():
    net = nn.DataParallel(nn.Linear(2, 1).cuda(), device_ids=[0])
    y = net(torch.ones(4, 2))
    return str(y.device), list(net.state_dict()), net.device_ids


def parallel_wants_its_module_on_a_gpu():
    net = nn.DataParallel(nn.Linear(2, 1), device_ids=[0])
    return raised(lambda: net(torch.ones(4, 2)))


def weights_of_a_recurrent_layer_are_in_one_piece():
    net, x = nn.LSTM(2, 2).cuda(), torch.ones(3, 1, 2, device="cuda")
    return warned(lambda: net(x)), [str(part.device) for part in net(x)[1]]


def packed_sequences():
    x, lengths = torch.ones(2, 3, 1, device="cuda"), torch.tensor([3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    refused = raised(
        lambda: nn.utils.rnn.pack_padded_sequence(x, lengths.cuda(), batch_first=True)
    )
    return places(packed.data, packed.batch_sizes), refused


def packed_sequences_go_through_a_recurrent_layer():
    x, lengths = torch.ones(3, 2, 4, device="cuda"), torch.tensor([3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
    return places(*nn.utils.rnn.pad_packed_sequence(nn.LSTM(4, 5).cuda()(packed)[0]))


@gpus(2)
def parallel_on_two_gpus():
    seen, net = [], nn.DataParallel(nn.Linear(2, 1).cuda(), device_ids=[0, 1])
    net.module.register_forward_hook(
        lambda module, inputs, output: seen.append((str(output.device), len(output)))
    )
    y = net(torch.ones(4, 2, device="cuda"))
    return sorted(seen), str(y.device), list(y.shape)


@gpus(2)
def parallel_with_a_module_on_the_second_gpu():
    net = nn.DataParallel(nn.Linear(2, 1).cuda(1), device_ids=[0, 1])
    return raised(lambda: net(torch.ones(4, 2)))


@gpus(2)
def a_network_over_two_gpus():
    first, second = nn.Linear(2, 2).cuda(0), nn.Linear(2, 1).cuda(1)
    y = second(first(torch.ones(1, 2, device="cuda:0")).to("cuda:1"))
    y.sum().backward()
    return str(y.device), places(first.weight.grad, second.weight.grad)


@gpus(2)
def a_network_over_two_gpus_that_forgets_to_move():
    first, second = nn.Linear(2, 2).cuda(0), nn.Linear(2, 1).cuda(1)
    return beginning(lambda: second(first(torch.ones(1, 2, device="cuda:0"))))
