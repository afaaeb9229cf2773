"""Operators of a program's own, and those that take functions: which kernel runs, and where."""

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.compilers import nop
from torch.library import Library, custom_op, opcheck, register_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from fidelity.asking import beginning, gpus, places, raised


@gpus(2)
def kernels_for_one_type_of_device():
    @custom_op("fidelity::on_gpu", mutates_args=(), device_types="cuda")
    def on_gpu(x: torch.Tensor) -> torch.Tensor:
        seen.extend([*places(x, x + 1, torch.ones(1)), x.is_cuda])
        return x + torch.ones(x.shape, device=x.device)

    @custom_op("fidelity::on_cpu", mutates_args=(), device_types="cpu")
    def on_cpu(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    seen, x = [], torch.ones(2, device="cuda:1")
    results = repr(on_gpu(x)), repr(on_cpu(x.cpu())), seen
    backends = raised(lambda: on_cpu(x)).partition("is only available for these ")[2][
        :14
    ]
    return (
        results,
        beginning(lambda: on_gpu(x.cpu())),
        beginning(lambda: on_cpu(x)),
        backends,
    )


def a_kernel_that_is_registered_later():
    @custom_op("fidelity::later", mutates_args=(), device_types="cpu")
    def later(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    x = torch.ones(2, device="cuda")
    before = beginning(lambda: later(x))
    register_kernel("fidelity::later", "cuda", lambda x: x + 2)
    return before, repr(later(x))


def a_kernel_in_the_place_of_pytorchs_own():
    x, given = (
        torch.zeros(2, device="cuda", requires_grad=True),
        Library("aten", "IMPL"),
    )
    given.impl("sinc", lambda x: x + 2, "CUDA")
    made = repr(torch.sinc(x)), repr(torch.sinc(torch.zeros(2)))
    given._destroy()
    return made, repr(torch.sinc(x))


@gpus(2)
def a_kernel_for_all_devices():
    @custom_op("fidelity::anywhere", mutates_args=())
    def anywhere(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones_like(x)

    anywhere.register_autograd(lambda ctx, gradient: gradient * 3)
    anywhere.register_fake(torch.empty_like)
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    anywhere(x).sum().backward()
    return repr(x.grad), opcheck(anywhere, (x.detach(),))


def a_kernel_that_forgets_the_device():
    @custom_op("fidelity::mixing", mutates_args=())
    def mixing(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(x.shape)

    return raised(lambda: mixing(torch.ones(2, device="cuda")))


def a_function_that_is_traced_with_its_gradient():
    x = torch.ones(3, device="cuda", requires_grad=True)
    traced = aot_function(lambda x: x * 2, fw_compiler=nop)(x)
    traced.sum().backward()
    return str(traced.device), repr(x.grad)


@gpus(2)
def branches():
    other, told = torch.ones(2, device="cuda:0"), []
    for value in (2.0, 0.0):
        x = torch.full((2,), value, device="cuda:1")
        told.append(
            repr(torch.cond(x.sum() > 2, lambda x: x + 1, lambda x: x - 1, (x,)))
        )
    return told, raised(
        lambda: torch.cond(x.sum() < 9, lambda x: x + other, lambda x: x, (x,))
    )


def attention_with_a_formula_of_ones_own():
    torch.manual_seed(0)
    query, key, value = (torch.rand(1, 2, 16, 8, device="cuda") for _ in range(3))
    bias = torch.rand(2, device="cuda")
    query.requires_grad_()
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device="cuda")
    out = flex_attention(
        query,
        key,
        value,
        score_mod=lambda s, b, h, i, j: s.tanh() + bias[h],
        block_mask=mask,
    )
    scores = (query @ key.mT / 8**0.5).tanh() + bias[:, None, None]
    causal = torch.ones(16, 16, dtype=torch.bool, device="cuda").tril()
    expected = scores.masked_fill(~causal, -torch.inf).softmax(-1) @ value
    ours, theirs = (
        torch.autograd.grad(each.sum(), query)[0] for each in (out, expected)
    )
    same = (
        torch.allclose(out, expected, atol=1e-5),
        torch.allclose(ours, theirs, atol=1e-5),
    )
    return same, places(out, ours)
