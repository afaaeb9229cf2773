"""Random numbers: a stream for each GPU, which nothing else disturbs.

There is more in `fidelity/programs/randomness.py`.
"""

import pytest
import torch
from torch import nn

from cudasim.dispatch import operators

pytestmark = pytest.mark.usefixtures("two_gpus")
G1 = torch.device("cuda:1")
FACTORIES = {
    "randperm": lambda: torch.randperm(9, device=G1),
    "randint": lambda: torch.randint(9, (4,), device=G1),
}
LIKE_A_TENSOR = {
    "randn_like": lambda x: torch.randn_like(x),
    "rand_like": lambda x: torch.rand_like(x),
    "randint_like": lambda x: torch.randint_like(x, 9),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "multinomial": lambda x: torch.multinomial(x, 2),
    "poisson": lambda x: torch.poisson(x),
    "normal": lambda x: torch.normal(x, x),
    "dropout": lambda x: nn.functional.dropout(x),
    "native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "rrelu": lambda x: nn.functional.rrelu(-x, training=True),
}
IN_PLACE = {
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "exponential_": lambda x: x.exponential_(),
    "random_": lambda x: x.random_(),
    "xavier_uniform_": lambda x: nn.init.xavier_uniform_(x),
}


def assert_draws_from_its_own_generator(draw):
    """Assert that `draw` changes the state of the second GPU's generator, and no other."""
    torch.cuda.manual_seed_all(7)
    of_cpu = torch.get_rng_state()
    of_first, of_second = torch.cuda.get_rng_state_all()
    numbers = draw()
    assert numbers.device == G1
    assert torch.equal(torch.get_rng_state(), of_cpu)
    assert torch.equal(torch.cuda.get_rng_state(0), of_first)
    assert not torch.equal(torch.cuda.get_rng_state(1), of_second)

    torch.cuda.manual_seed_all(7)
    assert torch.equal(draw(), numbers)


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
def test_factories_draw_from_the_generator_of_their_gpu(make):
    assert_draws_from_its_own_generator(make)


@pytest.mark.parametrize("draw", LIKE_A_TENSOR.values(), ids=LIKE_A_TENSOR)
def test_operations_draw_from_the_generator_of_their_gpu(draw):
    x = torch.ones(20, device=G1)
    assert_draws_from_its_own_generator(lambda: draw(x))


WITH_A_GENERATOR = {
    "bernoulli": lambda x, g: torch.bernoulli(x * 0.5, generator=g),
    "binomial": lambda x, g: torch.binomial(x * 9, x * 0.5, generator=g),
    "multinomial": lambda x, g: torch.multinomial(x, 2, generator=g),
    "poisson": lambda x, g: torch.poisson(x, generator=g),  # C++ names it by its place
    "poisson by place": lambda x, g: torch.poisson(x, g),
}


@pytest.mark.parametrize("draw", WITH_A_GENERATOR.values(), ids=WITH_A_GENERATOR)
def test_operations_draw_from_the_generator_that_is_named(draw):
    generator = torch.Generator(G1)
    x = torch.ones(20, device=G1)
    before = torch.cuda.get_rng_state(1)
    first = draw(x, generator.manual_seed(7))
    assert torch.equal(draw(x, generator.manual_seed(7)), first)
    assert torch.equal(torch.cuda.get_rng_state(1), before)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type"):
        draw(x, torch.Generator())


@pytest.mark.parametrize("fill", IN_PLACE.values(), ids=IN_PLACE)
def test_tensors_are_filled_from_the_generator_of_their_gpu(fill):
    def draw():
        x = torch.ones(4, 5, device=G1)
        return fill(x)

    assert_draws_from_its_own_generator(draw)


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "random"), reason="torch 2.14 has it first"
)
def test_the_accelerators_generators_are_those_of_its_gpus():
    torch.cuda.manual_seed_all(7)
    first, second = torch.accelerator.random.get_rng_state_all()
    assert torch.accelerator.random.initial_seed(1) == 7
    torch.rand(1, device="cuda:1")
    assert torch.equal(torch.accelerator.random.get_rng_state("cuda:0"), first)
    assert not torch.equal(torch.accelerator.random.get_rng_state(1), second)


def test_generators_of_the_cpu_are_torchs_own():
    assert type(torch.Generator()) is type(torch.default_generator)
    assert isinstance(torch.default_generator, torch.Generator)


def test_a_generator_of_a_number_is_of_that_gpu():
    assert torch.Generator(1).device == torch.device("cuda:1")


def test_no_generator_takes_a_state_that_lies_on_a_gpu(tmp_path):
    """`check_rng_state` of ATen/core/Generator.h, which CPU and CUDA generators call.

    Programs meet it where `torch.load(..., map_location="cuda")` has moved the states.
    """
    state, state_on_cuda = torch.get_rng_state(), torch.cuda.get_rng_state()
    setters = {
        torch.set_rng_state: state,
        torch.Generator().set_state: state,
        torch.default_generator.set_state: state,
        torch.cuda.set_rng_state: state_on_cuda,
        torch.Generator("cuda").set_state: state_on_cuda,
    }
    words = "^RNG state must be a torch.ByteTensor$"
    for set_state, right in setters.items():
        for wrong in (right.cuda(), right.float()):
            with pytest.raises(TypeError, match=words):
                set_state(wrong)
        set_state(right)
    with pytest.raises(TypeError, match=words):
        torch.Generator("cuda").set_state(state_on_cuda.repeat_interleave(2)[::2])

    torch.save(torch.Generator(), tmp_path / "generator.pt")
    torch.load(tmp_path / "generator.pt", weights_only=False)
    with pytest.raises(TypeError, match=words):
        torch.load(tmp_path / "generator.pt", weights_only=False, map_location="cuda")


def test_what_computes_for_cuda_alone_draws_from_the_gpu(monkeypatch):
    def drop(x, p, generator=None):
        return torch.rand(x.shape, generator=generator), x

    func = torch.ops.aten._fused_dropout.default
    substitute = operators.Substitute(drop, is_idle=lambda args: False)
    monkeypatch.setitem(operators.SUBSTITUTES, func, substitute)
    monkeypatch.setattr(func, operators.RECORD, operators.Operator(func), raising=False)
    x = torch.ones(4, device=G1)
    state = torch.get_rng_state()
    draws = []
    for _ in range(2):
        torch.cuda.manual_seed_all(1)
        draws.append(func(x, 0.5)[0].tolist())
    assert draws[0] == draws[1]
    assert torch.equal(torch.get_rng_state(), state)
