"""Making tensors on a GPU: factories, defaults, and the old constructors."""

import numpy as np
import torch

from fidelity.asking import beginning, places, raised, warned


def every_spelling_of_a_device():
    spellings = ["cuda", "cuda:0", 0, torch.device("cuda"), torch.device("cuda", 0)]
    return [str(torch.ones(1, device=device).device) for device in spellings]


def factories_make_on_the_device():
    where = {"device": "cuda"}
    return places(
        torch.empty(1, **where),
        torch.zeros(1, **where),
        torch.full((1,), 2, **where),
        torch.arange(2, **where),
        torch.linspace(0, 1, 2, **where),
        torch.logspace(0, 1, 2, **where),
        torch.eye(2, **where),
        torch.tril_indices(2, 2, **where),
        torch.hann_window(3, **where),
        torch.empty_strided((2, 2), (1, 2), **where),
    )


def random_factories_make_on_the_device():
    where = {"device": "cuda"}
    return places(
        torch.rand(1, **where),
        torch.randn(1, **where),
        torch.randint(2, (1,), **where),
        torch.randperm(2, **where),
    )


def factories_that_follow_a_tensor():
    x = torch.ones(2, device="cuda")
    return places(
        torch.zeros_like(x),
        torch.rand_like(x),
        x.new_zeros(1),
        x.new_tensor([1]),
        x.new_full((1,), 2),
    )


def what_follows_a_tensor_may_be_sent_elsewhere():
    x = torch.ones(2, device="cuda")
    return places(
        torch.zeros_like(x, device="cpu"),
        x.new_ones(1, device="cpu"),
        torch.ones_like(torch.ones(1), device="cuda"),
    )


def numbers_lists_and_arrays():
    array = np.ones(2, dtype=np.float32)
    return places(
        torch.tensor(1, device="cuda"),
        torch.tensor([[1, 2]], device="cuda"),
        torch.as_tensor(array, device="cuda"),
        torch.asarray(array, device="cuda"),
    )


def tensors_made_of_a_tensor():
    x, elsewhere = torch.ones(2, device="cuda"), {"device": "cpu"}
    moved = [torch.as_tensor(x, **elsewhere), torch.asarray(x, **elsewhere)]
    return places(torch.as_tensor(x), torch.asarray(x), *moved)


def an_array_on_a_gpu_is_a_copy():
    array = np.ones(2)
    x = torch.as_tensor(array, device="cuda")
    array[0] = 7
    return x.tolist()


def as_tensor_is_the_tensor_itself():
    x = torch.ones(2, device="cuda")
    return torch.as_tensor(x) is x, torch.as_tensor(x, device="cuda") is x


def tensor_of_a_tensor_copies_and_warns():
    x = torch.ones(2, device="cuda")
    made = places(x.clone().detach(), torch.tensor(x), torch.tensor(x, device="cpu"))
    return warned(lambda: torch.tensor(x)), made


def a_list_of_gpu_numbers_becomes_a_tensor_of_the_cpu():
    one = torch.tensor(1.0, device="cuda")
    return repr(torch.tensor([one, one])), repr(torch.tensor([[one], [one]]))


def a_list_of_gpu_vectors_is_refused():
    return raised(lambda: torch.tensor([torch.ones(2, device="cuda")] * 2))


def sizes_may_be_numbers_on_the_gpu():
    three = torch.tensor(3, device="cuda")
    return (
        list(torch.ones(three).shape),
        str(torch.arange(three).device),
        str(torch.ones(three).device),
    )


def a_gpu_number_fills_a_tensor_of_the_cpu():
    return repr(torch.full((2,), torch.tensor(3.0, device="cuda").item()))


def a_context_sets_the_device():
    with torch.device("cuda"):
        made = places(torch.ones(1), torch.tensor([1]), torch.rand(1), torch.arange(2))
    return made, places(torch.ones(1))


def contexts_nest():
    with torch.device("cuda"):
        with torch.device("cpu"):
            inner = torch.ones(1)
        return places(inner, torch.ones(1))


def a_named_device_wins_over_the_context():
    with torch.device("cuda"):
        return places(
            torch.ones(1, device="cpu"), torch.ones_like(torch.ones(1, device="cpu"))
        )


def what_a_context_leaves_alone():
    x = torch.ones(2)
    with torch.device("cuda"):
        return places(torch.from_numpy(np.ones(2)), x + 1, x.clone(), x.new_ones(1))


def the_default_device_is_set_and_told():
    torch.set_default_device("cuda")
    try:
        told = repr(torch.get_default_device())
        return told, places(torch.ones(1), torch.nn.Linear(1, 1).weight)
    finally:
        torch.set_default_device(None)


def the_default_device_is_the_cpu_at_first():
    return repr(torch.get_default_device())


def the_default_device_may_be_absent():
    def use():
        torch.set_default_device("cuda:99")
        try:
            torch.ones(1)
        finally:
            torch.set_default_device(None)

    return beginning(use)


def constructors_of_old():
    return [
        repr(torch.cuda.FloatTensor([1, 2])),
        str(torch.cuda.LongTensor(2, 3).shape),
        torch.cuda.HalfTensor([1]).type(),
    ]


def classes_of_old_recognise_their_tensors():
    x = torch.ones(2, device="cuda")
    return (
        isinstance(x, torch.cuda.FloatTensor),
        isinstance(x, torch.FloatTensor),
        isinstance(x, torch.cuda.LongTensor),
        isinstance(torch.ones(2), torch.cuda.FloatTensor),
    )


def the_old_constructor_refuses_a_gpu():
    return raised(lambda: torch.Tensor([1], device="cuda"))


def the_old_new_follows_its_tensor():
    x, y = torch.ones(2, device="cuda"), torch.ones(2)
    refused = (
        raised(lambda: x.new([1], device="cpu")),
        raised(lambda: y.new([1], device="cuda")),
    )
    return places(x.new([1, 2]), x.new(2, 3), y.new([1])), refused


def the_default_type_of_old():
    def use():
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        try:
            return str(torch.ones(1).device)
        finally:
            torch.set_default_tensor_type("torch.FloatTensor")

    return raised(use)


def a_pinned_tensor_cannot_be_made_on_a_gpu():
    return raised(lambda: torch.ones(2, device="cuda", pin_memory=True))


def a_device_that_is_not_there():
    return raised(lambda: torch.ones(2, device="cuda:99"))


def what_is_no_device_for_a_factory():
    devices = ["gpu", 1.5, [0], torch.ones(1)]
    return [
        raised(lambda device=device: torch.ones(1, device=device)) for device in devices
    ]


def a_negative_size():
    return raised(lambda: torch.ones(-1, device="cuda"))


def a_memory_format_is_kept():
    x = torch.empty(1, 2, 3, 4, device="cuda", memory_format=torch.channels_last)
    return list(x.stride()), x.is_contiguous(memory_format=torch.channels_last)
