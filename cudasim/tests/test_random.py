"""Random numbers: a stream for each GPU, which nothing else disturbs.

More of it is asked by `fidelity/programs/randomness.py`.
"""

import copy
import pickle

import pytest
import torch
from torch import nn

from fidelity.asking import raised

pytestmark = pytest.mark.usefixtures("two_gpus")


def drawn(device, **options):
    return torch.rand(5, device=device, **options).tolist()


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
    cpu, other, mine = torch.get_rng_state(), *torch.cuda.get_rng_state_all()
    once = draw(x)
    assert once.device == x.device
    assert torch.equal(torch.get_rng_state(), cpu)
    assert torch.equal(torch.cuda.get_rng_state(0), other)
    assert not torch.equal(torch.cuda.get_rng_state(1), mine)
    torch.cuda.manual_seed_all(7)
    assert torch.equal(draw(x), once)


def test_states_go_back_and_forth():
    states = torch.cuda.get_rng_state_all()
    both = drawn("cuda:0"), drawn("cuda:1")
    torch.cuda.set_rng_state(states[1], "cuda:1")
    assert drawn("cuda:1") == both[1] and drawn("cuda:0") != both[0]
    torch.cuda.set_rng_state_all(states)
    assert (drawn("cuda:0"), drawn("cuda:1")) == both


def test_seeds_of_the_current_gpu_and_of_all():
    def seeds():
        return [each.initial_seed() for each in torch.cuda.default_generators]

    torch.cuda.manual_seed_all(12)
    with torch.cuda.device(1):
        torch.cuda.manual_seed(11)
        assert torch.cuda.initial_seed() == 11 and seeds() == [12, 11]
    torch.cuda.seed_all()
    assert seeds()[0] == seeds()[1] not in (11, 12)
    torch.manual_seed(-1)
    assert torch.cuda.initial_seed() == torch.initial_seed() == 2**64 - 1


@pytest.mark.parametrize("device", ["cuda:1", torch.device("cuda", 1), 1])
def test_generators_have_a_device(device):
    generator, default = torch.Generator(device=device), torch.cuda.get_rng_state(1)
    assert isinstance(generator, torch.Generator)
    assert generator.device == torch.device("cuda:1")
    first = drawn("cuda:1", generator=generator.manual_seed(5))
    assert torch.empty(5, device="cuda:1").uniform_(generator=generator).tolist() != first
    assert drawn("cuda:1", generator=generator.manual_seed(5)) == first
    assert torch.equal(torch.cuda.get_rng_state(1), default)
    assert torch.cuda.manual_seed_all(5) is None and drawn("cuda:1") == first


def test_generators_of_the_cpu_are_torchs_own():
    assert type(torch.Generator()) is type(torch.default_generator)
    assert isinstance(torch.default_generator, torch.Generator)


def test_generators_are_copied_and_pickled():
    generator = torch.Generator("cuda:1").manual_seed(9)
    drawn("cuda:1", generator=generator)
    pickled = pickle.loads(pickle.dumps(generator))
    copies = [generator.clone_state(), copy.deepcopy(generator), pickled]
    following = drawn("cuda:1", generator=generator)
    for each in copies:
        assert each.device == generator.device and each.initial_seed() == 9
        assert drawn("cuda:1", generator=each) == following
    shared = generator.graphsafe_get_state()
    drawn("cuda:1", generator=shared)
    assert shared.get_offset() == generator.get_offset()
    generator.set_offset(4)
    assert drawn("cuda:1", generator=generator) == following
    assert "offset must be a multiple of 4" in raised(lambda: generator.set_offset(3))
