"""`torch.use_deterministic_algorithms`: what CUDA refuses, or warns of."""

import torch
import torch.nn.functional as F

from fidelity.asking import deterministic

INDEX = {"dtype": torch.int64, "device": "cuda"}


def pooling_undone():
    x = torch.rand(1, 1, 2, 2, device="cuda")
    return deterministic(
        lambda: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
    )


def a_loss_of_pictures():
    x, target = torch.rand(1, 3, 2, 2, device="cuda"), torch.zeros(1, 2, 2, **INDEX)
    return deterministic(lambda: F.nll_loss(x, target))


def the_gradient_of_a_loss_of_sequences():
    def backward():
        x = torch.rand(4, 1, 3, device="cuda", requires_grad=True)
        lengths = torch.tensor([4]), torch.tensor([2])
        F.ctc_loss(
            x.log_softmax(2), torch.tensor([[1, 2]], **INDEX), *lengths
        ).backward()

    return deterministic(backward)


def the_gradient_of_the_largest_in_a_bag():
    def backward():
        x, begins = (
            torch.rand(2, 2, device="cuda", requires_grad=True),
            torch.tensor([0, 2]),
        )
        rows = torch.tensor([0, 1, 1], **INDEX)
        F.embedding_bag(rows, x, begins.cuda(), mode="max").sum().backward()

    return deterministic(backward)


def adding_at_places():
    x, one = torch.rand(2, 2, device="cuda"), torch.ones(1, device="cuda")
    return deterministic(
        lambda: x.put_(torch.tensor([0], **INDEX), one, accumulate=True)
    )


def counting():
    x, places = torch.rand(3, device="cuda"), torch.zeros(3, **INDEX)
    return [
        deterministic(lambda: torch.histc(x)),
        deterministic(lambda: torch.histc(x.cpu())),
        deterministic(lambda: torch.bincount(places, x)),
        deterministic(lambda: torch.bincount(places)),
    ]


def medians():
    x = torch.rand(3, device="cuda")
    return [deterministic(lambda: x.median(0)), deterministic(x.median)]


def cumulative_sums():
    x = torch.rand(3, device="cuda")
    calls = x.cumsum, x.long().cumsum, x.cpu().cumsum
    return [deterministic(lambda call=call: call(0)) for call in calls]


def products_scattered():
    x, places = torch.rand(1, 2, device="cuda"), torch.zeros(1, 2, **INDEX)
    return [
        deterministic(lambda: x.scatter_reduce(0, places, x, "prod")),
        deterministic(lambda: x.scatter_add(0, places, x)),
    ]


def what_is_deterministic():
    x = torch.rand(3, 3, device="cuda", requires_grad=True)
    image = torch.rand(1, 1, 3, 3, device="cuda", requires_grad=True)
    return [
        deterministic(lambda: x[torch.tensor([0, 0])].sum().backward()),
        deterministic(lambda: F.conv2d(image, image).sum().backward()),
        deterministic(lambda: F.interpolate(image, 4, mode="bilinear")),
        deterministic(x.sort),
    ]
