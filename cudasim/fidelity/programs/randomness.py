"""Random numbers: the GPU's own, repeated by a seed, independent of the CPU's."""

import copy
import pickle

import torch

from fidelity.asking import gpus, raised


def a_seed_repeats():
    torch.manual_seed(1)
    x = torch.rand(5, device="cuda")
    torch.manual_seed(1)
    return torch.equal(x, torch.rand(5, device="cuda")), torch.equal(
        x, torch.rand(5, device="cuda")
    )


def another_seed_gives_other_numbers():
    torch.cuda.manual_seed(1)
    x = torch.rand(5, device="cuda")
    torch.cuda.manual_seed(2)
    return torch.equal(x, torch.rand(5, device="cuda"))


def the_cpus_draws_make_no_difference():
    torch.manual_seed(1)
    x = torch.rand(5, device="cuda")
    torch.manual_seed(1)
    torch.rand(100)
    return torch.equal(x, torch.rand(5, device="cuda"))


def the_gpus_draws_leave_the_cpu_alone():
    torch.manual_seed(1)
    x = torch.rand(5)
    torch.manual_seed(1)
    torch.rand(100, device="cuda")
    return torch.equal(x, torch.rand(5))


def a_seed_of_the_gpu_leaves_the_cpu_alone():
    torch.manual_seed(1)
    x = torch.rand(5)
    torch.manual_seed(1)
    torch.cuda.manual_seed(2)
    return torch.equal(x, torch.rand(5))


def the_same_seed_on_cpu_and_gpu():
    torch.manual_seed(1)
    return torch.equal(torch.rand(5), torch.rand(5, device="cuda").cpu())


def all_kinds_of_draws_are_repeated():
    def draw():
        torch.cuda.manual_seed(4)
        x = torch.zeros(9, device="cuda")
        return [
            torch.randn(9, device="cuda"),
            torch.randint(9, (9,), device="cuda"),
            torch.randperm(9, device="cuda"),
            torch.bernoulli(x + 0.5),
            x.clone().normal_(),
            torch.nn.functional.dropout(x + 1),
            torch.multinomial(x + 1, 3),
        ]

    return [torch.equal(x, y) for x, y in zip(draw(), draw(), strict=True)]


def numbers_are_within_their_bounds():
    torch.cuda.manual_seed(5)
    x, n = torch.rand(1000, device="cuda"), torch.randint(3, 7, (1000,), device="cuda")
    return bool((x >= 0).all() and (x < 1).all()), n.unique().tolist()


def a_state_brings_numbers_back():
    state = torch.cuda.get_rng_state()
    x = torch.rand(5, device="cuda")
    torch.cuda.set_rng_state(state)
    return torch.equal(x, torch.rand(5, device="cuda"))


def a_state_is_bytes_on_the_cpu():
    state = torch.cuda.get_rng_state()
    return list(state.shape), str(state.dtype), str(state.device)


def a_draw_changes_the_state():
    before = torch.cuda.get_rng_state()
    torch.rand(1, device="cuda")
    return torch.equal(before, torch.cuda.get_rng_state())


def a_state_of_the_wrong_size_or_type():
    return [
        raised(lambda: torch.cuda.set_rng_state(torch.zeros(3, dtype=torch.uint8))),
        raised(lambda: torch.cuda.set_rng_state(torch.zeros(16))),
        raised(lambda: torch.cuda.set_rng_state(torch.get_rng_state())),
    ]


def the_seed_is_told():
    torch.cuda.manual_seed(7)
    told = torch.cuda.initial_seed()
    torch.manual_seed(8)
    return told, torch.cuda.initial_seed(), torch.initial_seed()


def every_gpu_is_seeded():
    torch.cuda.manual_seed_all(9)
    return torch.cuda.initial_seed(), len(
        torch.cuda.get_rng_state_all()
    ) == torch.cuda.device_count()


def a_seed_may_be_chosen_by_chance():
    torch.cuda.manual_seed(9)
    torch.cuda.seed()
    return torch.cuda.initial_seed() == 9


def a_negative_seed_is_counted_from_the_end():
    torch.manual_seed(-1)
    return str(torch.cuda.initial_seed()), str(torch.initial_seed())


def seeds_that_are_none():
    return raised(lambda: torch.cuda.manual_seed("a")), raised(
        lambda: torch.manual_seed(2**65)
    )


def a_fork_brings_both_streams_back():
    torch.manual_seed(1)
    with torch.random.fork_rng():
        torch.rand(5), torch.rand(5, device="cuda")
    x, y = torch.rand(5), torch.rand(5, device="cuda")
    torch.manual_seed(1)
    return torch.equal(x, torch.rand(5)), torch.equal(y, torch.rand(5, device="cuda"))


def a_fork_of_no_gpu_leaves_them_changed():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[]):
        torch.rand(5, device="cuda")
    x = torch.rand(5, device="cuda")
    torch.manual_seed(1)
    return torch.equal(x, torch.rand(5, device="cuda"))


def a_generator_has_a_device():
    generator = torch.Generator(device="cuda")
    return (
        str(generator.device),
        torch.Generator().device.type,
        str(torch.Generator("cuda:0").device),
    )


def a_generator_has_its_own_numbers():
    generator = torch.Generator("cuda").manual_seed(3)
    x = torch.rand(5, device="cuda", generator=generator)
    torch.rand(5, device="cuda")
    generator.manual_seed(3)
    return torch.equal(
        x, torch.rand(5, device="cuda", generator=generator)
    ), generator.initial_seed()


def a_generator_has_a_state():
    generator = torch.Generator("cuda").manual_seed(3)
    state = generator.get_state()
    x = torch.rand(5, device="cuda", generator=generator)
    generator.set_state(state)
    return list(state.shape), torch.equal(
        x, torch.rand(5, device="cuda", generator=generator)
    )


def generators_are_copied_with_their_state():
    generator = torch.Generator("cuda").manual_seed(9)
    torch.rand(5, device="cuda", generator=generator)
    copies = [generator.clone_state(), copy.deepcopy(generator)]
    copies.append(pickle.loads(pickle.dumps(generator)))
    x = torch.rand(5, device="cuda", generator=generator)
    same = [
        torch.equal(x, torch.rand(5, device="cuda", generator=each)) for each in copies
    ]
    return same, [(str(each.device), each.initial_seed()) for each in copies]


def a_state_of_a_generator_may_be_shared():
    generator = torch.Generator("cuda").manual_seed(9)
    shared = generator.graphsafe_get_state()
    torch.rand(5, device="cuda", generator=shared)
    return shared.get_offset() == generator.get_offset() > 0


def a_generator_has_an_offset():
    generator = torch.Generator("cuda").manual_seed(9)
    torch.rand(5, device="cuda", generator=generator)
    offset = generator.get_offset()
    x = torch.rand(5, device="cuda", generator=generator)
    generator.set_offset(offset)
    again = torch.rand(5, device="cuda", generator=generator)
    return offset, torch.equal(x, again), raised(lambda: generator.set_offset(3))


def a_new_generator_has_the_default_seed():
    return torch.Generator("cuda").initial_seed(), torch.Generator().initial_seed()


def a_generator_of_the_cpu_draws_nothing_on_the_gpu():
    generator = torch.Generator()
    return [
        raised(lambda: torch.rand(2, device="cuda", generator=generator)),
        raised(lambda: torch.randperm(2, device="cuda", generator=generator)),
        raised(lambda: torch.ones(2, device="cuda").normal_(generator=generator)),
        raised(
            lambda: torch.multinomial(
                torch.ones(2, device="cuda"), 1, generator=generator
            )
        ),
    ]


def a_generator_of_the_gpu_draws_nothing_on_the_cpu():
    generator = torch.Generator("cuda")
    return [
        raised(lambda: torch.rand(2, generator=generator)),
        raised(lambda: torch.randperm(2, generator=generator)),
        raised(lambda: torch.ones(2).normal_(generator=generator)),
    ]


def a_generator_of_a_gpu_that_is_not_there():
    return raised(lambda: torch.Generator("cuda:99")), raised(
        lambda: torch.Generator("gpu")
    )


def the_gpus_have_generators():
    generators = torch.cuda.default_generators
    return len(generators) == torch.cuda.device_count(), str(generators[0].device)


def the_state_of_a_gpu_that_is_not_there():
    return raised(lambda: torch.cuda.get_rng_state(99)), raised(
        lambda: torch.cuda.get_rng_state("cpu")
    )


@gpus(2)
def the_same_seed_gives_both_gpus_the_same_numbers():
    torch.manual_seed(1)
    return torch.equal(
        torch.rand(5, device="cuda:0").cpu(), torch.rand(5, device="cuda:1").cpu()
    )


@gpus(2)
def the_gpus_streams_are_independent():
    torch.manual_seed(1)
    x = torch.rand(5, device="cuda:1")
    torch.manual_seed(1)
    torch.rand(100, device="cuda:0")
    return torch.equal(x, torch.rand(5, device="cuda:1"))


@gpus(2)
def a_seed_is_for_the_current_gpu():
    torch.cuda.manual_seed_all(1)
    with torch.cuda.device(1):
        torch.cuda.manual_seed(2)
        told = torch.cuda.initial_seed()
    return told, [torch.cuda.default_generators[i].initial_seed() for i in (0, 1)]


@gpus(2)
def all_gpus_are_seeded_alike_by_chance():
    torch.cuda.manual_seed_all(1)
    torch.cuda.seed_all()
    first, second = (each.initial_seed() for each in torch.cuda.default_generators[:2])
    return first == second, first == 1


@gpus(2)
def states_of_all_gpus_go_back_and_forth():
    states = torch.cuda.get_rng_state_all()
    x, y = torch.rand(5, device="cuda:0"), torch.rand(5, device="cuda:1")
    torch.cuda.set_rng_state(states[1], "cuda:1")
    back = torch.equal(y, torch.rand(5, device="cuda:1"))
    torch.cuda.set_rng_state_all(states)
    return back, [torch.equal(z, torch.rand(5, device=z.device)) for z in (x, y)]


@gpus(2)
def a_generator_of_the_other_gpu():
    generator = torch.Generator("cuda:1")
    return raised(lambda: torch.rand(2, device="cuda:0", generator=generator))
