"""CUDA graphs: what is captured is done when it is replayed, in the memory of the capture."""

import gc

import pytest
import torch

pytestmark = pytest.mark.usefixtures("two_gpus")


def captured(function, pool=None):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = function()
    return graph, result


def test_a_capture_does_nothing_and_a_replay_does_it_again():
    x, counter = torch.ones(3, device="cuda"), torch.zeros(1, device="cuda")

    def work():
        counter.add_(1)
        return x * 2 + counter

    graph, result = captured(work)
    assert counter.item() == 0 and result.isnan().all()  # as on a card, nothing is there yet
    graph.replay()
    assert result.tolist() == [3, 3, 3]
    x.fill_(10)
    graph.replay()
    assert result.tolist() == [22, 22, 22] and counter.item() == 2
    assert result.device == torch.device("cuda:0")


def test_what_is_no_work_of_the_capture_is_done_at_once_and_once():
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
    assert calls.item() == beside.item() == 1 and result.tolist() == [2, 2]


def test_each_replay_draws_other_numbers_that_the_seed_determines():
    graph, drawn = captured(lambda: torch.rand(4, device="cuda"))
    torch.cuda.manual_seed(3)
    graph.replay()
    first = drawn.clone()
    graph.replay()
    assert not drawn.equal(first)
    torch.cuda.manual_seed(3)
    assert torch.rand(4, device="cuda").equal(first)


def test_a_generator_of_ones_own_is_to_be_registered():
    generator = torch.Generator("cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="generator not in capture mode"):
        with torch.cuda.graph(graph):
            torch.rand(2, device="cuda", generator=generator)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        torch.rand(2, device="cuda", generator=generator)


def instantiate_again():
    graph, _ = captured(lambda: torch.ones(1, device="cuda"))
    graph.instantiate()


def leave_a_stream_behind():
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()

    def work():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)

    try:
        captured(work)
    finally:
        assert x.tolist() == [1, 1, 1]


REFUSED = {
    "must be captured on a non-default stream": lambda: torch.cuda.CUDAGraph().capture_begin(),
    "without a preceding successful capture": lambda: torch.cuda.CUDAGraph().replay(),
    "only when keep_graph=true": instantiate_again,
    "must have been called before calling instantiate": lambda: torch.cuda.CUDAGraph(
        keep_graph=True
    ).instantiate(),
    "unjoined work": leave_a_stream_behind,
}


@pytest.mark.parametrize(("words", "call"), REFUSED.items(), ids=REFUSED)
def test_graphs_refuse_in_pytorchs_words(words, call):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_an_empty_graph_gives_a_warning_and_one_that_is_kept_is_instantiated_again():
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        captured(lambda: None)
    kept = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(kept):
        result = torch.ones(1, device="cuda")
    for _ in range(2):
        kept.instantiate()
    kept.replay()
    assert result.item() == 1


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.current_stream().synchronize(),
        lambda x: torch.tensor([1.0], device="cuda"),
        lambda x: torch.cuda.current_stream().wait_stream(torch.cuda.Stream()),
    ],
)
def test_what_waits_is_not_permitted_while_capturing(wait):
    x = torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="previous error during capture") as failure:
        captured(lambda: wait(x))
    said = str(failure.value.__context__)
    assert "not permitted when stream is capturing" in said or "uncaptured work" in said
    wait(x)  # it is, afterwards
    assert torch.cuda.get_sync_debug_mode() == 0


def test_a_stream_takes_part_if_it_waits_and_is_waited_for():
    x = torch.ones(3, device="cuda")
    side = torch.cuda.Stream()

    def work():
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            assert torch.cuda.is_current_stream_capturing()
            y = x + 1
        here.wait_stream(side)
        return y * 2

    graph, result = captured(work)
    assert not torch.cuda.is_current_stream_capturing()
    graph.replay()
    assert result.tolist() == [4, 4, 4]


def test_the_memory_of_a_graph_is_its_own_and_is_used_again():
    x = torch.ones(2**20, device="cuda")  # 4 MiB

    def work():
        y = x
        for _ in range(10):
            y = y + 1
        return y

    before = torch.cuda.memory_allocated()
    graph, result = captured(work)
    assert torch.cuda.memory_allocated() - before <= 4 * 2**20 + 1024
    reserved = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved  # the graph needs it
    ids = {each["segment_pool_id"] for each in torch.cuda.memory_snapshot()}
    assert graph.pool() in ids
    peak = torch.cuda.max_memory_allocated()
    graph.replay()
    assert torch.cuda.max_memory_allocated() == peak
    assert result[0].item() == 11
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved and result[0].item() == 11


def test_a_reader_is_told_of_an_input_that_is_gone():
    inputs = [torch.ones(2, device="cuda")]
    graph, _ = captured(lambda: inputs[0] + 1)
    inputs.clear()
    with pytest.warns(UserWarning, match="of which the program holds nothing"):
        graph.replay()


def test_callables_are_graphed_and_train_as_before():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    plain = plain.cuda()
    graphed = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    graphed = graphed.cuda()
    graphed.load_state_dict(plain.state_dict())
    inputs = [torch.randn(5, 4, device="cuda") for _ in range(3)]
    sample = torch.zeros(5, 4, device="cuda")
    fast = torch.cuda.make_graphed_callables(graphed, (sample,))
    losses = []
    for model in (plain, fast):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for each in inputs:
            optimizer.zero_grad()
            loss = model(each).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1])


def test_an_amp_replay_casts_what_was_cast_in_the_capture_alone():
    x = torch.ones(2, 2, device="cuda")
    graph, result = captured(lambda: x @ x)
    with torch.autocast("cuda"):
        graph.replay()
    assert result.dtype == torch.float32 and result[0, 0].item() == 2


def test_a_pool_of_ones_own_holds_what_is_made_in_it():
    pool = torch.cuda.MemPool()
    outside = torch.ones(4, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(4, device="cuda")
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id and segment["allocated_size"] == 512
    del inside, segment, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 2 * 2**20
    del outside


def test_a_graph_outlives_its_simulation_without_harm():
    import cudasim

    inputs = [torch.ones(2, device="cuda")]
    graph, _ = captured(lambda: inputs[0] + 1)
    inputs.clear()
    cudasim.disable()
    del graph
    gc.collect()
    cudasim.enable(gpus=2)


def test_a_pool_is_at_its_checkpoint_until_something_is_taken_there():
    graph, _ = captured(lambda: torch.ones(4, device="cuda"))
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    _, _ = captured(lambda: torch.ones(4, device="cuda"), pool=graph.pool())
    held = captured(lambda: torch.ones(4, device="cuda"), pool=graph.pool())
    with pytest.raises(NotImplementedError, match="not set back"):
        torch._C._cuda_setCheckpointPoolState(0, state, [], [])
    del held


def test_a_number_that_a_graph_brings_to_the_cpu_is_there_after_each_replay():
    number, x = torch.tensor(0.0).pin_memory(), torch.ones(2, device="cuda")
    graph, _ = captured(lambda: number.copy_(x.sum(), non_blocking=True))
    for wanted in (2, 6):
        graph.replay()
        torch.cuda.synchronize()
        assert number.item() == wanted
        x.fill_(3)


def test_another_seed_is_not_permitted_while_capturing():
    torch.manual_seed(3)
    captured(lambda: torch.manual_seed(3) and torch.rand(1, device="cuda"))
    with pytest.raises(RuntimeError, match="only if new seed is the same as the original seed"):
        captured(lambda: torch.manual_seed(4))
