"""Operands on the GPU and on the CPU: each class of operation refuses them in its own words."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fidelity.asking import raised

GPU, CPU = {"device": "cuda"}, {"device": "cpu"}


def adding():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: x + y), raised(lambda: y + x)


def other_arithmetic():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return [
        raised(lambda: x - y),
        raised(lambda: x * y),
        raised(lambda: y / x),
        raised(lambda: x**y),
        raised(lambda: y // x),
        raised(lambda: x % y),
    ]


def comparing():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: x > y), raised(lambda: y == x), raised(lambda: torch.ne(x, y))


def whole_tensors():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: torch.equal(x, y)), raised(lambda: torch.equal(y, x))


def closeness():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: torch.allclose(x, y)), raised(lambda: torch.isclose(y, x))


def in_place():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: x.add_(y)), raised(lambda: y.mul_(x))


def into_a_result_elsewhere():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: torch.add(x, x, out=y)), raised(
        lambda: torch.add(y, y, out=x)
    )


def a_reduction_into_a_result_elsewhere():
    x, y = torch.ones(3, **GPU), torch.ones((), **CPU)
    return raised(lambda: torch.sum(x, 0, out=y)), raised(
        lambda: torch.mean(x, 0, out=y)
    )


def a_product_into_a_result_elsewhere():
    x = torch.ones(2, 2, **GPU)
    return raised(lambda: torch.mm(x, x, out=torch.ones(2, 2, **CPU)))


def a_sort_into_results_elsewhere():
    x = torch.ones(2, **GPU)
    out = torch.ones(2, **CPU), torch.zeros(2, dtype=torch.long, **CPU)
    return raised(lambda: torch.sort(x, out=out))


def joining_into_a_result_elsewhere():
    x = torch.ones(2, **GPU)
    return raised(lambda: torch.cat([x, x], out=torch.ones(4, **CPU)))


def the_larger_of_two():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: torch.maximum(x, y)), raised(lambda: torch.minimum(y, x))


def logic_and_bits():
    x, y = torch.ones(3, dtype=torch.int, **GPU), torch.ones(3, dtype=torch.int, **CPU)
    return raised(lambda: x & y), raised(lambda: torch.logical_or(y, x))


def three_operands():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return [
        raised(lambda: torch.addcmul(x, x, y)),
        raised(lambda: torch.addcdiv(y, x, x)),
        raised(lambda: torch.lerp(x, y, 0.5)),
    ]


def choosing():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return [
        raised(lambda: torch.where(x > 0, x, y)),
        raised(lambda: torch.where(y > 0, x, x)),
        raised(lambda: torch.where(x > 0, y, y)),
    ]


def clamping():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return raised(lambda: x.clamp(min=y)), raised(lambda: y.clamp(y, x))


def functions_of_two():
    x, y = torch.ones(3, **GPU), torch.ones(3, **CPU)
    return [
        raised(lambda: torch.atan2(x, y)),
        raised(lambda: torch.copysign(y, x)),
        raised(lambda: torch.complex(x, y)),
        raised(lambda: torch.polar(x, y)),
    ]


def matrix_products():
    x, y = torch.ones(2, 2, **GPU), torch.ones(2, 2, **CPU)
    return raised(lambda: x @ y), raised(lambda: y @ x), raised(lambda: torch.mm(x, y))


def batched_products():
    x, y = torch.ones(2, 2, 2, **GPU), torch.ones(2, 2, 2, **CPU)
    return (
        raised(lambda: torch.bmm(x, y)),
        raised(lambda: torch.bmm(y, x)),
        raised(lambda: x @ y),
    )


def products_that_add():
    x, y = torch.ones(2, 2, **GPU), torch.ones(2, 2, **CPU)
    return [
        raised(lambda: torch.addmm(x, x, y)),
        raised(lambda: torch.addmm(x, y, x)),
        raised(lambda: torch.addmm(y, x, x)),
    ]


def batched_products_that_add():
    x, y = torch.ones(1, 2, 2, **GPU), torch.ones(1, 2, 2, **CPU)
    return raised(lambda: torch.baddbmm(x, y, x)), raised(
        lambda: torch.baddbmm(x, x, y)
    )


def products_of_vectors():
    x, y = torch.ones(2, **GPU), torch.ones(2, **CPU)
    return [
        raised(lambda: torch.dot(x, y)),
        raised(lambda: torch.dot(y, x)),
        raised(lambda: torch.vdot(x, y)),
        raised(lambda: torch.outer(x, y)),
    ]


def a_matrix_and_a_vector():
    x, y = torch.ones(2, 2, **GPU), torch.ones(2, 2, **CPU)
    return (
        raised(lambda: torch.mv(x, y[0])),
        raised(lambda: y @ x[0]),
        raised(lambda: x[0] @ y),
    )


def products_by_letters():
    x, y = torch.ones(2, 2, **GPU), torch.ones(2, 2, **CPU)
    return raised(lambda: torch.einsum("ij,jk->ik", x, y)), raised(
        lambda: torch.kron(x, y)
    )


def a_linear_layer_and_an_input_on_the_cpu():
    return raised(lambda: nn.Linear(3, 2, **GPU)(torch.ones(2, 3, **CPU)))


def a_linear_layer_on_the_cpu():
    return raised(lambda: nn.Linear(3, 2, **CPU)(torch.ones(2, 3, **GPU)))


def a_linear_layer_without_bias():
    return raised(lambda: nn.Linear(3, 2, bias=False, **GPU)(torch.ones(2, 3, **CPU)))


def a_linear_layer_and_a_single_example():
    return raised(lambda: nn.Linear(3, 2, **GPU)(torch.ones(3, **CPU)))


def a_bilinear_layer():
    layer = nn.Bilinear(2, 2, 1, **GPU)
    return raised(lambda: layer(torch.ones(1, 2, **GPU), torch.ones(1, 2, **CPU)))


def a_convolution_of_an_image_on_the_cpu():
    layer = nn.Conv2d(1, 1, 3, **GPU)
    return [raised(lambda n=n: layer(torch.ones(n, 1, 5, 5, **CPU))) for n in (1, 2)]


def a_convolution_on_the_cpu():
    layer = nn.Conv2d(1, 1, 3, **CPU)
    return [raised(lambda n=n: layer(torch.ones(n, 1, 5, 5, **GPU))) for n in (1, 2)]


def a_convolution_whose_bias_is_on_the_cpu():
    x, weight = torch.ones(2, 1, 5, 5, **GPU), torch.ones(1, 1, 3, 3, **GPU)
    return raised(lambda: F.conv2d(x, weight, torch.ones(1, **CPU)))


def other_convolutions():
    return [
        raised(lambda: nn.Conv1d(1, 1, 3, **GPU)(torch.ones(2, 1, 5, **CPU))),
        raised(lambda: nn.Conv3d(1, 1, 1, **GPU)(torch.ones(2, 1, 2, 2, 2, **CPU))),
        raised(
            lambda: nn.ConvTranspose2d(1, 1, 3, **CPU)(torch.ones(2, 1, 5, 5, **GPU))
        ),
    ]


def an_embedding_and_words_on_the_cpu():
    words = torch.zeros(3, dtype=torch.long, **CPU)
    return raised(lambda: nn.Embedding(4, 2, **GPU)(words))


def an_embedding_on_the_cpu():
    words = torch.zeros(3, dtype=torch.long, **GPU)
    return raised(lambda: nn.Embedding(4, 2, **CPU)(words))


def a_bag_of_embeddings():
    words = torch.zeros(1, 3, dtype=torch.long, **CPU)
    return raised(lambda: nn.EmbeddingBag(4, 2, **GPU)(words))


def batch_normalisation():
    return [
        raised(lambda: nn.BatchNorm1d(3, **CPU)(torch.ones(2, 3, **GPU))),
        raised(lambda: nn.BatchNorm2d(3, **CPU)(torch.ones(2, 3, 4, 4, **GPU))),
        raised(lambda: nn.BatchNorm1d(3, **GPU)(torch.ones(2, 3, **CPU))),
    ]


def other_normalisation():
    return [
        raised(lambda: nn.LayerNorm(3, **CPU)(torch.ones(2, 3, **GPU))),
        raised(lambda: nn.LayerNorm(3, **GPU)(torch.ones(2, 3, **CPU))),
        raised(lambda: nn.GroupNorm(1, 3, **CPU)(torch.ones(2, 3, 4, **GPU))),
        raised(lambda: nn.RMSNorm(3, **CPU)(torch.ones(2, 3, **GPU))),
    ]


def recurrent_layers():
    x = torch.ones(2, 1, 3, **CPU)
    return [
        raised(lambda: nn.RNN(3, 2, **GPU)(x)),
        raised(lambda: nn.LSTM(3, 2, **GPU)(x)),
        raised(lambda: nn.GRU(3, 2, **CPU)(x.cuda())),
    ]


def a_recurrent_layer_and_its_hidden_state():
    x, hidden = torch.ones(2, 1, 3, **GPU), torch.ones(1, 1, 2, **CPU)
    return raised(lambda: nn.GRU(3, 2, **GPU)(x, hidden))


def attention():
    x, y = torch.ones(1, 2, 4, **GPU), torch.ones(1, 2, 4, **CPU)
    return [
        raised(lambda: F.scaled_dot_product_attention(x, y, y)),
        raised(lambda: nn.MultiheadAttention(4, 1, **GPU)(y, y, y)),
    ]


def an_activation_with_a_weight():
    return raised(lambda: nn.PReLU(**CPU)(torch.ones(2, **GPU)))


def losses_of_classes():
    x, y = torch.ones(2, 3, **GPU), torch.zeros(2, dtype=torch.long, **CPU)
    return [
        raised(lambda: F.cross_entropy(x, y)),
        raised(lambda: F.cross_entropy(x.cpu(), y.cuda())),
        raised(lambda: F.nll_loss(x, y)),
    ]


def a_loss_with_weights_on_the_cpu():
    x, y = torch.ones(2, 3, **GPU), torch.zeros(2, dtype=torch.long, **GPU)
    return raised(lambda: F.cross_entropy(x, y, weight=torch.ones(3, **CPU)))


def losses_of_numbers():
    x, y = torch.full((2,), 0.5, **GPU), torch.full((2,), 0.5, **CPU)
    return [
        raised(lambda: F.mse_loss(x, y)),
        raised(lambda: F.l1_loss(y, x)),
        raised(lambda: F.smooth_l1_loss(x, y)),
        raised(lambda: F.kl_div(x, y)),
    ]


def losses_of_probabilities():
    x, y = torch.full((2,), 0.5, **GPU), torch.full((2,), 0.5, **CPU)
    return [
        raised(lambda: F.binary_cross_entropy(x, y)),
        raised(lambda: F.binary_cross_entropy_with_logits(x, y)),
    ]


def joining():
    x, y = torch.ones(2, **GPU), torch.ones(2, **CPU)
    return [
        raised(lambda: torch.cat([x, y])),
        raised(lambda: torch.cat([y, x])),
        raised(lambda: torch.stack([x, y])),
        raised(lambda: torch.hstack([y, x])),
    ]


def distances():
    x, y = torch.ones(2, 3, **GPU), torch.ones(2, 3, **CPU)
    return [
        raised(lambda: torch.cdist(x, y)),
        raised(lambda: F.pairwise_distance(x, y)),
        raised(lambda: F.cosine_similarity(x, y)),
    ]


def linear_algebra():
    x, y = torch.eye(2, **GPU), torch.eye(2, **CPU)
    return [
        raised(lambda: torch.linalg.solve(x, y)),
        raised(lambda: torch.cholesky_solve(x, y)),
        raised(lambda: torch.linalg.solve_triangular(x, y, upper=True)),
        raised(lambda: torch.cross(torch.ones(3, **GPU), torch.ones(3, **CPU), dim=0)),
    ]


def searching():
    x, y = torch.arange(3.0, **GPU), torch.ones(2, **CPU)
    return [
        raised(lambda: torch.searchsorted(x, y)),
        raised(lambda: torch.bucketize(y, x)),
        raised(lambda: torch.isin(x, y)),
    ]


def counting():
    x, y = torch.zeros(2, dtype=torch.long, **GPU), torch.ones(2, **CPU)
    return [
        raised(lambda: torch.bincount(x, weights=y)),
        raised(lambda: torch.repeat_interleave(y, x)),
        raised(
            lambda: torch.quantile(torch.ones(2, **GPU), torch.tensor([0.5], **CPU))
        ),
    ]


def sampling_an_image():
    image, grid = torch.ones(1, 1, 2, 2, **GPU), torch.zeros(1, 2, 2, 2, **CPU)
    return raised(lambda: F.grid_sample(image, grid, align_corners=False))


def lists_of_tensors():
    x, y = torch.ones(2, **GPU), torch.ones(2, **CPU)
    return raised(lambda: torch._foreach_add([x], [y])), raised(
        lambda: torch._foreach_mul_([y], [x])
    )


def means_and_deviations():
    x, y = torch.ones(2, **GPU), torch.ones(2, **CPU)
    return raised(lambda: torch.normal(x, y)), raised(lambda: torch.normal(y, x))


def with_meta():
    x, y = torch.ones(2, **GPU), torch.ones(2, device="meta")
    return raised(lambda: x + y), raised(lambda: y + x)


def with_an_array():
    x = torch.ones(2, **GPU)
    return raised(lambda: x + np.ones(2)), raised(lambda: np.ones(2) * x)
