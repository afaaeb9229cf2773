"""CUDA graphs: what a capture does, what it forbids, and what a replay repeats."""

import torch

from fidelity.helpers import beginning, captured, raised


def a_replay_does_again_what_was_captured():
    x = torch.ones(2, device="cuda")
    counter = torch.zeros(1, device="cuda")
    graph, result = captured(lambda: x * 2 + counter.add_(1))
    at_first = counter.item()
    graph.replay()
    first = result.tolist()
    x.fill_(10)
    graph.replay()
    return at_first, first, result.tolist(), counter.item(), str(result.device)


def what_is_not_the_gpus_is_done_once():
    on_the_cpu = torch.zeros(1)
    number = torch.tensor(2.0)
    x = torch.ones(2, device="cuda")
    on_the_side = torch.zeros(1, device="cuda")
    side = torch.cuda.Stream()

    def work():
        on_the_cpu.add_(1)
        with torch.cuda.stream(side):
            on_the_side.add_(1)
        return x * number

    graph, result = captured(work)
    number.fill_(5)  # it was captured as it was
    graph.replay()
    torch.cuda.synchronize()
    return on_the_cpu.item(), on_the_side.item(), result.tolist()


def each_replay_draws_other_numbers_of_the_seed():
    graph, drawn = captured(lambda: torch.rand(4, device="cuda"))
    torch.cuda.manual_seed(3)
    graph.replay()
    first = drawn.clone()
    graph.replay()
    torch.cuda.manual_seed(3)
    return drawn.equal(first), torch.rand(4, device="cuda").equal(first)


def a_generator_of_ones_own_is_not_registered():
    generator = torch.Generator("cuda")

    def work():
        return torch.rand(2, device="cuda", generator=generator)

    return beginning(lambda: captured(work))


def a_stream_that_is_left_behind():
    x = torch.ones(2, device="cuda")
    side = torch.cuda.Stream()

    def work():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)

    return beginning(lambda: captured(work)), x.tolist()


def what_waits_is_not_permitted():
    x = torch.ones(3, device="cuda")
    waits = [
        lambda: x.sum().item(),
        lambda: x.cpu(),
        lambda: x.nonzero(),
        lambda: x[x > 0],
        torch.cuda.synchronize,
        lambda: torch.cuda.current_stream().synchronize(),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: torch.cuda.current_stream().wait_stream(torch.cuda.Stream()),
    ]
    within = []
    at_the_end = []
    afterwards = []
    for wait in waits:

        def work(wait=wait):
            within.append(beginning(wait))

        def capture(work=work):
            return captured(work)

        at_the_end.append(beginning(capture))
        afterwards.append(raised(wait))
    return within, at_the_end, afterwards, torch.cuda.get_sync_debug_mode()
