"""What a `torch.device` is: named, compared, refused."""

import copy
import pickle

import torch

from fidelity.asking import gpus, raised


@gpus(0)
def devices_print():
    names = ["cpu", "cuda", "cuda:0", "cuda:1", "meta"]
    return [[repr(torch.device(name)), str(torch.device(name))] for name in names]


@gpus(0)
def a_device_has_a_type_and_an_index():
    device = torch.device("cuda:1")
    return device.type, device.index, torch.device("cuda").index


@gpus(0)
def devices_are_made_of_a_type_and_an_index():
    return str(torch.device("cuda", 1)), str(torch.device(type="cuda", index=2))


@gpus(0)
def devices_are_equal_if_type_and_index_are():
    first = torch.device("cuda:0")
    return {
        "the same again": first == torch.device("cuda", 0),
        "another index": first == torch.device("cuda:1"),
        "no index": first == torch.device("cuda"),
        "a text": first == "cuda:0",
        "a text, not equal": first != "cuda:0",
    }


@gpus(0)
def devices_are_keys():
    return len({torch.device("cuda:0"), torch.device("cuda", 0), torch.device("cuda")})


@gpus(0)
def devices_have_no_order():
    return raised(lambda: torch.device("cuda:0") < torch.device("cuda:1"))


@gpus(0)
def devices_cannot_be_changed():
    return raised(lambda: setattr(torch.device("cuda"), "index", 1))


@gpus(0)
def devices_are_copied_and_pickled():
    device = torch.device("cuda:1")
    again = pickle.loads(pickle.dumps(device))
    return again == device, copy.deepcopy(device) == device, type(again).__name__


@gpus(0)
def an_unknown_type_of_device():
    return raised(lambda: torch.device("gpu"))


@gpus(0)
def device_names_that_are_none():
    names = [
        "cuda:-1",
        "cuda:a",
        "cuda:",
        "cuda:0:1",
        "cuda:01",
        "cuda:1000",
        "CUDA",
        "",
    ]
    return {name: raised(lambda name=name: torch.device(name)) for name in names}


@gpus(0)
def an_index_said_twice():
    return raised(lambda: torch.device("cuda:0", 1))


@gpus(0)
def what_is_no_device():
    return [raised(lambda: torch.device(1.5)), raised(lambda: torch.device([]))]


@gpus(0)
def a_gpu_that_is_not_there_can_be_named():
    return str(torch.device("cuda:99"))


def an_integer_is_a_gpu():
    return repr(torch.device(0)), repr(torch.device(1)), repr(torch.device("cuda", 0))


def a_negative_integer_is_no_gpu():
    return raised(lambda: torch.device(-1)), raised(lambda: torch.device("cuda", -2))


def a_tensors_device_has_an_index():
    x = torch.ones(2, device="cuda")
    return (
        repr(x.device),
        x.device == torch.device("cuda:0"),
        x.device == torch.device("cuda"),
    )


def a_tensor_tells_whether_it_is_on_a_gpu():
    return [
        (x.is_cuda, x.is_cpu, x.get_device())
        for x in (torch.ones(1), torch.ones(1).cuda())
    ]


def a_tensors_device_cannot_be_set():
    return raised(
        lambda: setattr(torch.ones(1, device="cuda"), "device", torch.device("cpu"))
    )


def a_parameter_tells_its_device():
    weight = torch.nn.Linear(1, 1, device="cuda").weight
    return (
        str(weight.device),
        weight.is_cuda,
        weight.get_device(),
        str(weight.data.device),
    )
