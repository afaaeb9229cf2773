"""Random numbers of a GPU, and their generators."""

import torch

from fidelity.helpers import gpus, raised


def the_same_seed_on_cpu_and_gpu():
    torch.manual_seed(1)
    x = torch.rand(5)
    return torch.equal(x, torch.rand(5, device="cuda").cpu())


@gpus(2)
def the_same_seed_gives_both_gpus_the_same_numbers():
    torch.manual_seed(1)
    x = torch.rand(5, device="cuda:0")
    return torch.equal(x.cpu(), torch.rand(5, device="cuda:1").cpu())


@gpus(2)
def a_seed_is_for_the_current_gpu():
    torch.cuda.manual_seed_all(1)
    with torch.cuda.device(1):
        torch.cuda.manual_seed(2)
        seed = torch.cuda.initial_seed()
    generators = torch.cuda.default_generators
    return seed, [generators[i].initial_seed() for i in (0, 1)]


def a_generator_has_an_offset():
    generator = torch.Generator("cuda").manual_seed(9)
    torch.rand(5, device="cuda", generator=generator)
    offset = generator.get_offset()
    x = torch.rand(5, device="cuda", generator=generator)
    generator.set_offset(offset)
    again = torch.rand(5, device="cuda", generator=generator)
    return offset, torch.equal(x, again), raised(lambda: generator.set_offset(3))


@gpus(2)
def a_generator_of_the_other_gpu():
    generator = torch.Generator("cuda:1")
    return raised(lambda: torch.rand(2, device="cuda:0", generator=generator))
