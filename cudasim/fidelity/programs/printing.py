"""What is printed, to the letter."""

import torch
from torch import nn

from fidelity.asking import gpus


def vectors_and_matrices():
    x = torch.arange(6.0, device="cuda")
    return repr(x), str(x.reshape(2, 3))


def types_of_number():
    kinds = [
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int32,
        torch.bool,
        torch.complex64,
    ]
    return [repr(torch.ones(2, device="cuda", dtype=kind)) for kind in kinds]


def a_single_number():
    x = torch.tensor(1.5, device="cuda")
    return repr(x), f"{x}", f"{x:.2f}", f"{x.long()}"


def empty_tensors():
    return repr(torch.empty(0, device="cuda")), repr(torch.empty(0, 3, device="cuda"))


def what_is_no_number():
    return repr(
        torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], device="cuda")
    )


def large_tensors_are_abridged():
    return repr(torch.arange(2000, device="cuda"))


def a_tensor_that_needs_a_gradient():
    return repr(torch.ones(2, device="cuda", requires_grad=True))


def results_of_autograd():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return repr(w * 2), repr(w.sum()), repr(w.cpu()), repr((w * 2).detach())


def a_move_that_autograd_records():
    w = torch.ones(2, requires_grad=True)
    return repr(w.cuda()), repr(w.to("cuda", torch.float64))


def views():
    x = torch.arange(6, device="cuda").reshape(2, 3)
    return repr(x[1]), repr(x.T), repr(x[0, 1])


def parameters():
    return repr(nn.Parameter(torch.ones(2, device="cuda")))


def lists_and_dicts_of_parameters():
    weight = nn.Parameter(torch.ones(2, 3, device="cuda"))
    return repr(nn.ParameterList([weight])), repr(nn.ParameterDict({"w": weight}))


def modules_do_not_say_where_they_are():
    return repr(nn.Sequential(nn.Linear(2, 1), nn.ReLU()).cuda())


def a_state_dict():
    net = nn.Linear(1, 1, bias=False).cuda()
    nn.init.ones_(net.weight)
    return repr(list(net.state_dict().items()))


def names_of_types():
    kinds = [torch.float32, torch.float16, torch.int64, torch.bool]
    return [torch.ones(1, device="cuda", dtype=kind).type() for kind in kinds]


def tensors_under_a_default_device():
    with torch.device("cuda"):
        return repr(torch.ones(2)), repr(torch.ones(2, device="cpu"))


def tensors_on_meta():
    return repr(torch.ones(2, device="cuda").to("meta"))


def quotients_are_rounded_to_four_digits():
    return repr(torch.ones(2, device="cuda") / 4), repr(
        torch.tensor([1e-6, 1.0], device="cuda")
    )


def the_options_of_printing():
    with torch._tensor_str.printoptions(precision=1, sci_mode=False):
        return repr(torch.tensor([1.25, 1000.0], device="cuda"))


def the_fields_of_properties():
    text = repr(torch.cuda.get_device_properties(0))
    name, _, fields = text.partition("(")
    return name, [field.partition("=")[0] for field in fields.split(", ")]


def a_device_context():
    return type(torch.cuda.device(0)).__name__, torch.cuda.device(0).idx


@gpus(2)
def the_second_gpu():
    x = torch.ones(2, device="cuda:1")
    return repr(x), repr(x.sum()), repr([x.device, x.cuda(0).device])
