"""Random numbers: a stream for each GPU, which nothing else disturbs.

There is more in `fidelity/programs/randomness.py`.
"""

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")
DRAWS = [
    lambda x: torch.randn_like(x),
    lambda x: torch.rand_like(x),
    lambda x: torch.randint_like(x, 9),
    lambda x: x.clone().normal_(),
    lambda x: x.clone().uniform_(),
    lambda x: x.clone().exponential_(),
    lambda x: x.clone().random_(),
    lambda x: torch.bernoulli(x * 0.5),
    lambda x: torch.multinomial(x, 2),
    lambda x: torch.poisson(x),
    lambda x: torch.normal(x, x),
    lambda x: torch.randperm(9, device=x.device),
    lambda x: torch.randint(9, (4,), device=x.device),
    lambda x: nn.functional.dropout(x),
    lambda x: nn.functional.rrelu(-x, training=True),
    lambda x: torch.native_dropout(x, 0.5, True)[0],
    lambda x: nn.init.xavier_uniform_(x.clone().view(4, 5)),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_drawing_on_a_gpu_leaves_other_generators_alone(draw):
    x = torch.ones(20, device="cuda:1")
    torch.cuda.manual_seed_all(7)
    of_cpu = torch.get_rng_state()
    of_first, of_second = torch.cuda.get_rng_state_all()
    once = draw(x)
    assert once.device == x.device
    assert torch.equal(torch.get_rng_state(), of_cpu)
    assert torch.equal(torch.cuda.get_rng_state(0), of_first)
    assert not torch.equal(torch.cuda.get_rng_state(1), of_second)
    torch.cuda.manual_seed_all(7)
    assert torch.equal(draw(x), once)


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
