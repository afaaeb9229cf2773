"""Operators of a program's own, and those that take functions: which kernel runs, and where."""

import pytest
import torch
from calls import raised
from functorch.compile import aot_function, nop
from torch.library import Library, custom_op, register_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import cudasim

pytestmark = pytest.mark.usefixtures("two_gpus")

GPU1 = torch.device("cuda", 1)


@custom_op("cudasim_test::on_gpu", mutates_args=(), device_types="cuda")
def on_gpu(x: torch.Tensor) -> torch.Tensor:
    """A kernel for GPUs, which sees where its tensors are."""
    assert x.is_cuda and (x + 1).device == x.device
    assert torch.ones(1).device.type == "cpu"
    return x + torch.ones(x.shape, device=x.device)


@custom_op("cudasim_test::on_cpu", mutates_args=(), device_types="cpu")
def on_cpu(x: torch.Tensor) -> torch.Tensor:
    """A kernel for the CPU alone."""
    return x + 1


@custom_op("cudasim_test::anywhere", mutates_args=())
def anywhere(x: torch.Tensor) -> torch.Tensor:
    """A kernel for all devices."""
    return x + torch.ones_like(x)


anywhere.register_autograd(lambda ctx, gradient: gradient * 3)
anywhere.register_fake(torch.empty_like)


@custom_op("cudasim_test::mixing", mutates_args=())
def mixing(x: torch.Tensor) -> torch.Tensor:
    """A kernel that forgets the device of what it makes."""
    return x + torch.ones(x.shape)


@pytest.fixture
def x():
    return torch.ones(2, device="cuda:1")


@pytest.fixture
def library():
    library = Library("cudasim_test", "FRAGMENT")
    yield library
    library._destroy()


def test_a_kernel_for_one_type_of_device_is_reached_there_and_refused_elsewhere(x):
    assert on_gpu(x).device == GPU1 and on_gpu(x).tolist() == on_cpu(x.cpu()).tolist() == [2, 2]
    refused = "Could not run 'cudasim_test::{}' with arguments from the '{}'".format
    words = raised(lambda: on_gpu(x.cpu()), NotImplementedError)
    assert words.startswith(refused("on_gpu", "CPU"))
    words = raised(lambda: on_cpu(x), NotImplementedError)
    assert words.startswith(refused("on_cpu", "CUDA"))
    assert "is only available for these backends: [CPU, " in words


def test_a_kernel_that_is_registered_later_runs(x):
    @custom_op("cudasim_test::later", mutates_args=(), device_types="cpu")
    def later(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    raised(lambda: later(x), NotImplementedError)
    register_kernel("cudasim_test::later", "cuda", lambda x: x + 2)
    assert later(x).tolist() == [3, 3] and later(x).device == GPU1


def test_a_kernel_of_the_programs_takes_the_place_of_pytorchs_own_on_gpus_alone():
    x, given = torch.zeros(2, device=GPU1, requires_grad=True), Library("aten", "IMPL")
    given.impl("sinc", lambda x: x + 2, "CUDA")
    made = torch.sinc(x)
    assert made.tolist() == [2, 2] and made.device == GPU1 and made.grad_fn is not None
    assert torch.sinc(torch.zeros(2)).tolist() == [1, 1]
    given._destroy()
    assert torch.sinc(x).tolist() == [1, 1]


def test_an_operator_of_ones_own_is_differentiated_checked_and_traced(x):
    anywhere(x.requires_grad_()).sum().backward()
    assert x.grad.device == GPU1 and x.grad.tolist() == [3, 3]
    assert set(torch.library.opcheck(anywhere, (x.detach(),)).values()) == {"SUCCESS"}
    traced = aot_function(lambda x: x.sin() * 2, fw_compiler=nop)(x)
    traced.sum().backward()
    assert traced.device == x.grad.device == x.device


def test_operations_within_a_kernel_obey_devices(x):
    assert "found at least two devices, cuda:1 and cpu!" in raised(lambda: mixing(x))


def test_what_a_kernel_does_is_booked_once(library):
    cudasim.disable()
    with cudasim.simulate(clock="modelled"):
        x = torch.ones(1000, device="cuda")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CUDA")
        with cudasim.timeline() as lanes:
            torch.ops.cudasim_test.twice(x)
        names = [span.name for span in lanes.spans]
        assert "add" in names and "twice" not in names


# --- operators that take functions ---


@pytest.mark.parametrize(("value", "expected"), [(2.0, 3), (0.0, -1)])
def test_cond_chooses_on_the_gpu(value, expected):
    x, other = torch.full((2,), value, device="cuda:1"), torch.ones(2, device="cuda:0")
    out = torch.cond(x.sum() > 2, lambda x: x + 1, lambda x: x - 1, (x,))
    assert out.device == GPU1 and out.tolist() == [expected] * 2
    words = raised(lambda: torch.cond(x.sum() < 9, lambda x: x + other, lambda x: x, (x,)))
    assert "found at least two devices, cuda:1 and cuda:0!" in words


def test_flex_attention_and_its_gradient_are_those_of_the_formula():
    torch.manual_seed(0)
    query, key, value = (torch.rand(1, 2, 16, 8, device="cuda:1") for _ in range(3))
    bias = torch.rand(2, device="cuda:1")
    query.requires_grad_()
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 16, 16, device="cuda:1")
    out = flex_attention(
        query, key, value, score_mod=lambda s, b, h, i, j: s.tanh() + bias[h], block_mask=mask
    )
    scores = (query @ key.mT / 8**0.5).tanh() + bias[:, None, None]
    causal = torch.ones(16, 16, dtype=torch.bool, device="cuda:1").tril()
    expected = scores.masked_fill(~causal, -torch.inf).softmax(-1) @ value
    assert out.device == GPU1
    torch.testing.assert_close(out, expected)
    (ours,) = torch.autograd.grad(out.sum(), query)
    (theirs,) = torch.autograd.grad(expected.sum(), query)
    assert ours.device == GPU1
    torch.testing.assert_close(ours, theirs)
