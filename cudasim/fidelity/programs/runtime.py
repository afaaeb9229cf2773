"""`torch.cuda`: errors, settings, and kernels of a program's own."""

import torch

from fidelity.helpers import gpus, places, raised, warned


def cudas_results_in_words():
    messages = {}
    for number in (0, 1, 2, 3, 100, 101, 209, 700, 710, 999):
        messages[number] = raised(lambda n=number: torch.cuda.check_error(n))
    return messages


def waiting_may_be_warned_of():
    x = torch.ones(1, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        return warned(x.item)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def a_kernel_in_the_place_of_pytorchs_own():
    x = torch.zeros(2, device="cuda", requires_grad=True)
    library = torch.library.Library("aten", "IMPL")
    library.impl("sinc", lambda x: x + 2, "CUDA")
    replaced = repr(torch.sinc(x)), repr(torch.sinc(torch.zeros(2)))
    library._destroy()
    return replaced, repr(torch.sinc(x))


@gpus(2)
def maps_move_and_obey_devices():
    x = torch.eye(2, device="cuda:1")
    batch = torch.stack([x, x + 1])
    one = torch.ones((), device="cuda:1")
    moved = torch.vmap(lambda a: (a @ a + one).to("cuda:0"))(batch)
    at_home = torch.vmap(torch.sum)(batch.cpu())
    mixing = torch.vmap(lambda a: a + x.cuda(0))
    return repr(moved), places(at_home), raised(lambda: mixing(batch))
