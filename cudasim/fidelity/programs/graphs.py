"""CUDA graphs: what a capture does and does not, what it refuses, and what a replay does."""

import torch

from fidelity.asking import beginning, captured, raised, warned


def a_replay_does_again_what_was_captured():
    x, counter = torch.ones(2, device="cuda"), torch.zeros(1, device="cuda")
    graph, result = captured(lambda: x * 2 + counter.add_(1))
    begun = counter.item()
    graph.replay()
    first = result.tolist()
    x.fill_(10)
    graph.replay()
    return begun, first, result.tolist(), counter.item(), str(result.device)


def what_is_not_the_gpus_is_done_once():
    calls, number = torch.zeros(1), torch.tensor(2.0)
    x, beside = torch.ones(2, device="cuda"), torch.zeros(1, device="cuda")
    side = torch.cuda.Stream()

    def work():
        calls.add_(1)
        with torch.cuda.stream(side):
            beside.add_(1)
        return x * number

    graph, result = captured(work)
    number.fill_(5)  # it was captured as it was
    graph.replay()
    torch.cuda.synchronize()
    return calls.item(), beside.item(), result.tolist()


def a_stream_that_waits_and_is_waited_for_takes_part():
    x, side = torch.ones(2, device="cuda"), torch.cuda.Stream()
    seen = []

    def work():
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            seen.append(torch.cuda.is_current_stream_capturing())
            y = x + 1
        here.wait_stream(side)
        return y * 2

    graph, result = captured(work)
    graph.replay()
    return seen, torch.cuda.is_current_stream_capturing(), result.tolist()


def each_replay_draws_other_numbers_of_the_seed():
    graph, drawn = captured(lambda: torch.rand(4, device="cuda"))
    torch.cuda.manual_seed(3)
    graph.replay()
    first = drawn.clone()
    graph.replay()
    torch.cuda.manual_seed(3)
    return drawn.equal(first), torch.rand(4, device="cuda").equal(first)


def a_generator_of_ones_own_is_registered():
    generator, graph = torch.Generator("cuda"), torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        x = torch.rand(2, device="cuda", generator=generator)
    graph.replay()
    return list(x.shape)


def a_generator_of_ones_own_is_not_registered():
    generator = torch.Generator("cuda")
    return beginning(
        lambda: captured(lambda: torch.rand(2, device="cuda", generator=generator))
    )


def the_same_seed_may_be_set_again():
    torch.manual_seed(3)
    return raised(
        lambda: captured(lambda: torch.manual_seed(3) and torch.rand(1, device="cuda"))
    )


def another_seed_may_not_be_set():
    return beginning(lambda: captured(lambda: torch.manual_seed(4)))


def steps_in_a_wrong_order():
    graph, _ = captured(lambda: torch.ones(1, device="cuda"))
    return [
        beginning(lambda: torch.cuda.CUDAGraph().capture_begin()),
        beginning(lambda: torch.cuda.CUDAGraph().replay()),
        beginning(graph.instantiate),
        beginning(torch.cuda.CUDAGraph(keep_graph=True).instantiate),
    ]


def a_stream_that_is_left_behind():
    x, side = torch.ones(2, device="cuda"), torch.cuda.Stream()

    def work():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)

    return beginning(lambda: captured(work)), x.tolist()


def what_waits_is_not_permitted():
    x, said = torch.ones(3, device="cuda"), []
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
    ends = [
        beginning(lambda wait=wait: captured(lambda: said.append(beginning(wait))))
        for wait in waits
    ]
    afterwards = [raised(wait) for wait in waits]
    return said, ends, afterwards, torch.cuda.get_sync_debug_mode()


def an_empty_graph_warns():
    return warned(lambda: captured(lambda: None))


def a_graph_that_is_kept_is_instantiated_again():
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        x = torch.ones(1, device="cuda")
    graph.instantiate(), graph.instantiate()
    graph.replay()
    return x.item()


def a_replay_within_autocast_casts_nothing():
    x = torch.ones(2, 2, device="cuda")
    x @ x  # cuBLAS is loaded before the capture
    graph, result = captured(lambda: x @ x)
    with torch.autocast("cuda"):
        graph.replay()
    return str(result.dtype), result[0, 0].item()


def a_number_comes_home_at_each_replay():
    number, x = torch.tensor(0.0).pin_memory(), torch.ones(2, device="cuda")
    graph, _ = captured(lambda: number.copy_(x.sum(), non_blocking=True))
    seen = []
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        seen.append(number.item())
        x.fill_(3)
    return seen
