"""Operands on several devices: each operation refuses them in its own words."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fidelity.helpers import errors, gpus, raised


def adding():
    x = torch.ones(3, device="cuda")
    y = torch.ones(3)
    return errors(lambda: x + y, lambda: y + x)


def into_a_result_elsewhere():
    x = torch.ones(3, device="cuda")
    y = torch.ones(3)
    return errors(lambda: torch.add(x, x, out=y), lambda: torch.add(y, y, out=x))


def choosing_by_a_condition():
    x = torch.ones(3, device="cuda")
    y = torch.ones(3)
    return errors(
        lambda: torch.where(x > 0, x, y),
        lambda: torch.where(y > 0, x, x),
        lambda: torch.where(x > 0, y, y),
    )


def a_linear_layer_on_the_cpu():
    return raised(lambda: nn.Linear(3, 2)(torch.ones(2, 3, device="cuda")))


def batch_normalisation():
    return errors(
        lambda: nn.BatchNorm1d(3)(torch.ones(2, 3, device="cuda")),
        lambda: nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 4, device="cuda")),
        lambda: nn.BatchNorm1d(3, device="cuda")(torch.ones(2, 3)),
    )


def other_normalisation():
    return errors(
        lambda: nn.LayerNorm(3)(torch.ones(2, 3, device="cuda")),
        lambda: nn.LayerNorm(3, device="cuda")(torch.ones(2, 3)),
        lambda: nn.GroupNorm(1, 3)(torch.ones(2, 3, 4, device="cuda")),
        lambda: nn.RMSNorm(3)(torch.ones(2, 3, device="cuda")),
    )


def attention():
    x = torch.ones(1, 2, 4, device="cuda")
    y = torch.ones(1, 2, 4)
    return errors(
        lambda: F.scaled_dot_product_attention(x, y, y),
        lambda: nn.MultiheadAttention(4, 1, device="cuda")(y, y, y),
    )


def losses_of_classes():
    x = torch.ones(2, 3, device="cuda")
    y = torch.zeros(2, dtype=torch.long)
    return errors(
        lambda: F.cross_entropy(x, y),
        lambda: F.cross_entropy(x.cpu(), y.cuda()),
        lambda: F.nll_loss(x, y),
    )


def losses_of_probabilities():
    x = torch.full((2,), 0.5, device="cuda")
    y = torch.full((2,), 0.5)
    return errors(
        lambda: F.binary_cross_entropy(x, y),
        lambda: F.binary_cross_entropy_with_logits(x, y),
    )


def joining():
    x = torch.ones(2, device="cuda")
    y = torch.ones(2)
    return errors(
        lambda: torch.cat([x, y]),
        lambda: torch.cat([y, x]),
        lambda: torch.stack([x, y]),
        lambda: torch.hstack([y, x]),
    )


def a_vector_of_one_number_does_not_ride_along():
    x = torch.ones(3, device="cuda")
    two = torch.tensor([2.0])
    return errors(lambda: x * two, lambda: two * x)


def filling_from_the_gpu():
    y = torch.zeros(2)
    return raised(lambda: y.fill_(torch.tensor(2.0, device="cuda"))), y.tolist()


def a_condition_of_one_number_on_the_cpu():
    x = torch.ones(2, device="cuda")
    return raised(lambda: torch.where(torch.tensor(True), x, x))


def numbers_of_numpy():
    x = torch.ones(2, device="cuda")
    product = x * np.float64(2)
    return raised(lambda: x * np.float32(2)), repr(product), repr(x + np.int64(1))


def chosen_places_take_no_vector_of_the_cpu():
    x = torch.zeros(3, device="cuda")
    index = torch.tensor([0, 2], device="cuda")

    def assign():
        x[index] = torch.ones(2)

    return errors(assign, lambda: x.index_put_((index,), torch.ones(2)))


def chosen_places_of_the_cpu_and_values_of_the_gpu():
    x = torch.zeros(3)

    def assign(value):
        x[torch.tensor([0, 2])] = value

    return errors(
        lambda: assign(torch.ones(2, device="cuda")),
        lambda: assign(torch.tensor(1.0, device="cuda")),
    )


def scatter():
    x = torch.ones(3, device="cuda")
    index = torch.tensor([0], device="cuda")
    return errors(
        lambda: x.scatter(0, index, torch.ones(1)),
        lambda: x.scatter(0, index.cpu(), torch.ones(1, device="cuda")),
        lambda: x.scatter_add(0, index.cpu(), torch.ones(1, device="cuda")),
        lambda: x.scatter_reduce(0, index, torch.ones(1), "sum"),
    )


@gpus(2)
def a_number_of_the_other_gpu_does_not_ride_along():
    x = torch.ones(3, device="cuda:0")
    two = torch.tensor(2.0, device="cuda:1")
    return errors(lambda: x * two, lambda: two * x)


@gpus(2)
def a_number_of_the_other_gpu_fills():
    two = torch.tensor(2.0, device="cuda:0")
    x = torch.zeros(2, device="cuda:1")
    filled = repr(x.fill_(two)), repr(torch.fill(x, two))
    return *filled, repr(x.masked_fill(x > 0, two + 1))


@gpus(2)
def three_devices():
    x = torch.ones(2, device="cuda:0")
    y = torch.ones(2, device="cuda:1")
    z = torch.ones(2)
    return errors(lambda: torch.addcmul(z, x, y), lambda: torch.cat([y, x, z]))
