"""Indices on one device, what is indexed on another."""

import torch

from fidelity.asking import places, raised


def indices_of_the_cpu_into_a_gpu_tensor():
    x = torch.arange(4, device="cuda")
    return repr(x[torch.tensor([0, 2])]), repr(x[[1, 3]]), repr(x[x.cpu() > 1])


def indices_of_the_gpu_into_a_tensor_of_the_cpu():
    x, index = torch.arange(4), torch.tensor([0, 2], device="cuda")
    return raised(lambda: x[index]), raised(lambda: x[index > 0])


def a_mask_of_the_gpu_for_a_tensor_of_the_cpu():
    x = torch.arange(4)
    return raised(lambda: x[x.cuda() > 1])


def a_single_index_of_the_gpu():
    one = torch.tensor(1, device="cuda")
    return repr(torch.arange(4)[one]), repr(torch.arange(4)[one:]), repr([10, 20][one])


def an_index_beyond_the_end():
    return raised(lambda: torch.ones(2, device="cuda")[2])


def slices_are_assigned_across_devices():
    x, y = torch.zeros(3, device="cuda"), torch.zeros(3)
    x[:2] = torch.ones(2)
    y[1:] = torch.ones(2, device="cuda")
    return repr(x), repr(y)


def single_places_are_assigned_across_devices():
    x, y = torch.zeros(2, device="cuda"), torch.zeros(2)
    x[0], y[0] = torch.tensor(1.0), torch.tensor(1.0, device="cuda")
    return repr(x), repr(y)


def chosen_places_take_a_number_of_the_cpu():
    x = torch.zeros(3, device="cuda")
    x[torch.tensor([0, 2])] = torch.tensor(1.0)
    x[x == 0] = 5
    return repr(x)


def chosen_places_take_no_vector_of_the_cpu():
    x, index = torch.zeros(3, device="cuda"), torch.tensor([0, 2], device="cuda")

    def assign():
        x[index] = torch.ones(2)

    return raised(assign), raised(lambda: x.index_put_((index,), torch.ones(2)))


def masked_places_take_no_vector_of_the_cpu():
    x = torch.zeros(3, device="cuda")

    def assign():
        x[x == 0] = torch.ones(3)

    return raised(assign)


def chosen_places_of_the_cpu_and_values_of_the_gpu():
    x = torch.zeros(3)

    def assign(value):
        x[torch.tensor([0, 2])] = value

    return [
        raised(lambda: assign(torch.ones(2, device="cuda"))),
        raised(lambda: assign(torch.tensor(1.0, device="cuda"))),
    ]


def masked_places_of_the_cpu_take_a_number_of_the_gpu():
    x, two = torch.zeros(2), torch.tensor(2.0, device="cuda")
    x[x == 0] = two
    return repr(x)


def index_select():
    x, index = torch.ones(3, device="cuda"), torch.tensor([0])
    return raised(lambda: x.index_select(0, index)), raised(
        lambda: x.cpu()[None].index_select(1, index.cuda())
    )


def gather():
    x, index = torch.ones(3, device="cuda"), torch.tensor([0])
    return raised(lambda: x.gather(0, index)), raised(
        lambda: x.cpu().gather(0, index.cuda())
    )


def take():
    x, index = torch.ones(3, device="cuda"), torch.tensor([0])
    return raised(lambda: x.take(index)), raised(
        lambda: torch.take_along_dim(x, index, 0)
    )


def scatter():
    x, index = torch.ones(3, device="cuda"), torch.tensor([0], device="cuda")
    return [
        raised(lambda: x.scatter(0, index, torch.ones(1))),
        raised(lambda: x.scatter(0, index.cpu(), torch.ones(1, device="cuda"))),
        raised(lambda: x.scatter_add(0, index.cpu(), torch.ones(1, device="cuda"))),
        raised(lambda: x.scatter_reduce(0, index, torch.ones(1), "sum")),
    ]


def adding_and_copying_by_index():
    x, index = torch.ones(3, device="cuda"), torch.tensor([0], device="cuda")
    return [
        raised(lambda: x.index_add(0, index.cpu(), torch.ones(1, device="cuda"))),
        raised(lambda: x.index_add(0, index, torch.ones(1))),
        raised(lambda: x.index_copy(0, index, torch.ones(1))),
        raised(lambda: x.index_fill(0, index.cpu(), 1)),
    ]


def masks():
    x, mask = torch.ones(3, device="cuda"), torch.ones(3, dtype=torch.bool)
    return [
        raised(lambda: x.masked_fill(mask, 0)),
        raised(lambda: x.masked_select(mask)),
        raised(lambda: x.masked_scatter(mask, x)),
    ]


def indices_that_are_found_stay():
    x = torch.tensor([0, 1, 1], device="cuda")
    found = [x.nonzero(), x.argsort(), x.topk(1).indices, x.unique(), torch.where(x)[0]]
    return places(*found), x.nonzero().tolist()


def rows_and_members():
    x = torch.arange(4, device="cuda").reshape(2, 2)
    return places(*x), 3 in x, 7 in x, list(x[:, None, ..., 0].shape)
