"""Random numbers: a stream for each GPU, which nothing else disturbs."""

import copy
import pickle

import pytest
import torch
from calls import raised
from torch import nn

pytestmark = pytest.mark.usefixtures("two_gpus")


def drawn(device, **options):
    return torch.rand(5, device=device, **options).tolist()


def test_the_same_seed_gives_the_same_numbers_on_both_gpus():
    torch.manual_seed(3)
    first, second = drawn("cuda:0"), drawn("cuda:1")
    assert first == second
    assert drawn("cuda:0") != first
    torch.manual_seed(3)
    assert drawn("cuda:1") == first
    torch.manual_seed(4)
    assert drawn("cuda:0") != first


def test_what_the_cpu_draws_makes_no_difference():
    torch.manual_seed(3)
    alone = drawn("cuda")
    torch.manual_seed(3)
    torch.rand(100)
    assert drawn("cuda") == alone


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
    cpu, other = torch.get_rng_state(), torch.cuda.get_rng_state(0)
    mine = torch.cuda.get_rng_state(1)
    torch.cuda.manual_seed_all(7)
    once = draw(x)
    assert once.device == x.device
    torch.cuda.set_rng_state(torch.cuda.get_rng_state(1))
    torch.cuda.manual_seed_all(7)
    assert torch.equal(draw(x), once)
    torch.cuda.set_rng_state(other, 0)
    assert torch.equal(torch.get_rng_state(), cpu)
    assert not torch.equal(torch.cuda.get_rng_state(1), mine)


def test_states_are_16_bytes_and_go_back_and_forth():
    state = torch.cuda.get_rng_state("cuda:1")
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    first = drawn("cuda:1")
    torch.cuda.set_rng_state(state, "cuda:1")
    assert drawn("cuda:1") == first
    states = torch.cuda.get_rng_state_all()
    first = drawn("cuda:0"), drawn("cuda:1")
    torch.cuda.set_rng_state_all(states)
    assert (drawn("cuda:0"), drawn("cuda:1")) == first
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        torch.cuda.set_rng_state(torch.get_rng_state())
    with pytest.raises(TypeError, match="RNG state must be a torch"):
        torch.cuda.set_rng_state(torch.ones(16))


def test_seeds_of_the_current_gpu_and_of_all():
    with torch.cuda.device(1):
        torch.cuda.manual_seed(11)
        assert torch.cuda.initial_seed() == 11
    assert torch.cuda.initial_seed() != 11
    torch.cuda.manual_seed_all(12)
    assert [each.initial_seed() for each in torch.cuda.default_generators] == [12, 12]
    torch.cuda.seed()
    assert torch.cuda.initial_seed() != 12
    torch.cuda.seed_all()
    assert len({each.initial_seed() for each in torch.cuda.default_generators}) == 1
    torch.manual_seed(-1)
    assert torch.cuda.initial_seed() == torch.initial_seed() == 2**64 - 1


@pytest.mark.parametrize("device", ["cuda:1", torch.device("cuda", 1), 1])
def test_generators_have_a_device(device):
    generator = torch.Generator(device=device)
    assert isinstance(generator, torch.Generator)
    assert generator.device == torch.device("cuda:1")
    default = torch.cuda.get_rng_state(1)
    generator.manual_seed(5)
    first = drawn("cuda:1", generator=generator)
    x = torch.empty(5, device="cuda:1").uniform_(generator=generator)
    assert x.tolist() != first
    assert drawn("cuda:1", generator=generator.manual_seed(5)) == first
    assert torch.equal(torch.cuda.get_rng_state(1), default)
    assert torch.cuda.manual_seed_all(5) is None and drawn("cuda:1") == first


def test_generators_of_the_cpu_are_torchs_own():
    assert type(torch.Generator()) is type(torch.default_generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.Generator("cuda").device == torch.device("cuda")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.Generator("cuda:2")


@pytest.mark.parametrize("wanted, other", [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_generator_of_another_device_is_refused_in_cudas_words(wanted, other):
    chance = torch.Generator(other)
    for draw in (
        lambda: torch.rand(2, device=wanted, generator=chance),
        lambda: torch.randperm(2, device=wanted, generator=chance),
        lambda: torch.ones(2, device=wanted).normal_(generator=chance),
        lambda: torch.multinomial(torch.ones(2, device=wanted), 1, generator=chance),
    ):
        assert raised(draw) == (
            f"Expected a '{wanted}' device type for generator but found '{other}'"
        )


def test_generators_are_copied_and_pickled():
    generator = torch.Generator("cuda:1").manual_seed(9)
    drawn("cuda:1", generator=generator)
    copies = [generator.clone_state(), copy.deepcopy(generator)]
    copies.append(pickle.loads(pickle.dumps(generator)))
    following = drawn("cuda:1", generator=generator)
    for each in copies:
        assert each.device == generator.device and each.initial_seed() == 9
        assert drawn("cuda:1", generator=each) == following
    shared = generator.graphsafe_get_state()
    drawn("cuda:1", generator=shared)
    assert shared.get_offset() == generator.get_offset()
    generator.set_offset(4)
    assert drawn("cuda:1", generator=generator) == following
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_offset(3)
