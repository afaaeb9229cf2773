"""CUDA graphs: whose the memory is, and how long; `fidelity/programs/graphs.py` asks the rest."""

import copy
import gc
from contextlib import contextmanager, suppress
from inspect import signature

import pytest
import torch
from calls import in_thread, raised
from torch import nn

import cudasim
from cudasim.dispatch import held
from fidelity.helpers import captured

pytestmark = pytest.mark.usefixtures("two_gpus")


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
    segments = torch.cuda.memory_snapshot()
    assert graph.pool() in {segment["segment_pool_id"] for segment in segments}

    peak = torch.cuda.max_memory_allocated()
    graph.replay()
    assert torch.cuda.max_memory_allocated() == peak
    assert result[0].item() == 11
    del graph
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < reserved
    assert result[0].item() == 11


def test_results_are_freed_as_they_go_and_later_captures_use_their_memory():
    """ "Sharing memory across captures" in PyTorch's docs/source/notes/cuda.rst."""
    size = 32 * 2**20
    numbers = torch.zeros(size // 4, device="cuda")
    total = torch.zeros((), device="cuda")

    def work():
        result = numbers + 1
        total.add_(result[0])
        return result

    before = torch.cuda.memory_allocated()
    peaks, reserved, graphs = [], [], []
    pool = None
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            result = work()
        peaks.append(torch.cuda.max_memory_allocated())
        del result
        assert torch.cuda.memory_allocated() < before + size
        pool = graph.pool()
        reserved.append(torch.cuda.memory_reserved())
        graphs.append(graph)
    assert max(peaks) < before + 2 * size
    assert len(set(reserved)) == 1

    for graph in graphs:
        graph.replay()
    assert total.item() == len(graphs)


def test_a_graph_warns_of_an_input_that_is_gone():
    inputs = [torch.ones(2, device="cuda")]
    graph, _ = captured(lambda: inputs[0] + 1)
    inputs.clear()
    with pytest.warns(UserWarning, match="of which the program holds nothing"):
        graph.replay()


@pytest.mark.skipif(
    "check_input_liveness" not in signature(torch.cuda.graph).parameters,
    reason="since PyTorch 2.13",
)
def test_a_replay_is_refused_if_an_input_is_gone():
    """The words, and what counts as an input, are those of torch/utils/_cuda_debug.py."""
    inputs = {
        "on the GPU": torch.ones(2, device="cuda"),
        "pinned": torch.ones(2).pin_memory(),
        "pageable": torch.ones(()),
    }
    pool = torch.cuda.graph_pool_handle()

    def work():
        result = inputs["on the GPU"] + inputs["pageable"]
        return result.copy_(inputs["pinned"], non_blocking=True)

    def capture(work):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, check_input_liveness=True):
            result = work()
        return graph, result

    first, inputs["from the pool"] = capture(work)
    second, _ = capture(work)  # holds the same inputs, which makes no difference
    of_pool, _ = capture(lambda: inputs["from the pool"] + 1)
    del inputs["from the pool"], inputs["pageable"]
    for graph in (first, second, of_pool):
        graph.replay()

    del inputs["on the GPU"]
    for graph in (first, second):
        with pytest.raises(
            RuntimeError, match=r"^CUDA graph .* 1 dead tensor"
        ) as error:
            graph.replay()
        assert "in test_a_replay_is_refused_if" in str(error.value).split("Deletion")[1]
    of_pool.replay()
    del inputs["pinned"]
    with pytest.raises(RuntimeError, match=r"detected 2 dead tensor\(s\)"):
        first.replay()
    first.reset()
    second, _ = capture(lambda: torch.ones(2, device="cuda"))
    second.replay()


def test_a_graph_may_outlive_its_simulation():
    inputs = [torch.ones(2, device="cuda")]
    gc.collect()
    before = set(held._storages)
    graph, result = captured(lambda: inputs[0] + 1)
    cudasim.disable()
    assert held._storages.keys() > before
    inputs.clear()
    del graph, result
    gc.collect()
    assert held._storages.keys() <= before
    cudasim.enable(gpus=2)


def train(model, inputs):
    """Return the loss of the last step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in inputs:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def test_callables_are_graphed_and_train_as_before():
    plain = nn.Linear(4, 1).cuda()
    twin = copy.deepcopy(plain)
    sample = torch.zeros(5, 4, device="cuda")
    graphed = torch.cuda.make_graphed_callables(twin, (sample,))
    inputs = torch.randn(3, 5, 4, device="cuda")
    assert train(graphed, inputs) == pytest.approx(train(plain, inputs))


def test_a_capture_may_use_a_pool_of_ones_own():
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.MemPool()
    x = torch.ones(4, device="cuda")
    with torch.cuda.graph(graph), torch.cuda.use_mem_pool(pool):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2, 2, 2, 2]


def test_a_pool_of_ones_own_holds_what_is_made_in_it():
    pool = torch.cuda.MemPool()
    outside = torch.ones(4, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(4, device="cuda")
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert segment["allocated_size"] == 512
    del inside, segment, pool
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 2 * 2**20
    del outside


CAPTURED_EVENT = "operation not permitted on an event last recorded in a capturing"
NOT_WHILE_CAPTURING = "operation not permitted when stream is capturing"
INVALIDATED = "operation failed due to a previous error during capture"


def test_what_a_graph_cannot_do_is_refused():
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        torch.ones(2, device="cuda")
    hook = "register_replay_start_hook"  # since PyTorch 2.14
    if hasattr(torch.cuda.CUDAGraph, hook):
        with pytest.raises(
            NotImplementedError, match="cudasim does not know CUDAGraph"
        ):
            getattr(graph, hook)(print)
    with pytest.raises(NotImplementedError, match="no objects of CUDA"):
        graph.get_graph_data()


def test_the_blocks_of_a_pool_are_known_by_their_addresses():
    """`checkPoolLiveAllocations` in c10/cuda/CUDACachingAllocator.cpp"""
    pool = torch.cuda.graph_pool_handle()
    other_stream = torch.cuda.Stream()
    torch._C._cuda_beginAllocateCurrentStreamToPool(0, pool)
    kept = torch.ones(2, device="cuda")
    with torch.cuda.stream(other_stream):
        elsewhere = torch.ones(2, device="cuda")
    torch._C._cuda_endAllocateToPool(0, pool)
    (segment,) = torch.cuda.memory_snapshot(pool)
    address = segment["address"]

    are_live = torch._C._cuda_checkPoolLiveAllocations
    assert are_live(0, pool, {address})
    assert not are_live(0, pool, set())
    del kept, elsewhere
    assert are_live(0, pool, set())
    with pytest.raises(RuntimeError, match="Could not find pool of id"):
        are_live(0, (0, 10**6), set())


@contextmanager
def capturing(mode="global"):
    """Capture a graph on a stream of its own, and give it up at the end."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin(capture_error_mode=mode)
        try:
            yield graph
        finally:
            with suppress(RuntimeError):
                graph.capture_end()


def test_a_stream_that_captures_begins_no_other_capture():
    # cudaStreamBeginCapture: "may only be initiated if the stream is not already in capture
    # mode" (CUDA Runtime API, stream management).
    graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        said = raised(other.capture_begin, torch.AcceleratorError)
        assert "the operation cannot be performed in the present state" in said
        result = torch.zeros(2, device="cuda") + 1
        graph.capture_end()
    graph.replay()
    assert result.tolist() == [1, 1]


def adding_between(first, last):
    """Return work that records an event before an addition and one after it."""
    x = torch.ones(2, device="cuda")

    def work():
        first.record()
        result = x + 1
        last.record()
        return result

    return work


# The words are those of cudaGetErrorString (libcudart 13), and the rules those of
# cudaThreadExchangeStreamCaptureMode in the reference of CUDA's runtime.
@pytest.mark.parametrize("question", ["query", "synchronize", "elapsed_time"])
def test_a_captured_event_answers_no_question(question):
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    graph, _ = captured(adding_between(first, last))
    graph.replay()
    arguments = [last] if question == "elapsed_time" else []
    with pytest.raises(torch.AcceleratorError, match=CAPTURED_EVENT):
        getattr(first, question)(*arguments)


def test_an_external_event_is_recorded_by_each_replay():
    first, last = (
        torch.cuda.Event(enable_timing=True, external=True) for _ in range(2)
    )

    graph, _ = captured(adding_between(first, last))
    with pytest.raises(torch.AcceleratorError, match="invalid resource handle"):
        first.elapsed_time(last)  # CUDA has not recorded them yet
    graph.replay()
    last.synchronize()
    assert first.elapsed_time(last) > 0
    between = torch.cuda.Event(enable_timing=True)
    between.record()
    graph.replay()
    assert between.elapsed_time(first) > 0


def test_asking_a_captured_stream_spoils_the_graph():
    x = torch.ones(2, device="cuda")
    with capturing() as graph:
        with pytest.raises(torch.AcceleratorError, match=NOT_WHILE_CAPTURING):
            torch.cuda.current_stream().query()
        with pytest.raises(torch.AcceleratorError, match=INVALIDATED):
            x.add_(1)
        with pytest.raises(torch.AcceleratorError, match=INVALIDATED):
            graph.capture_end()


def new_segment():
    """Take memory from the driver, for a stream that is not captured."""
    with torch.cuda.stream(torch.cuda.Stream(1)):
        return torch.empty(2**24, device="cuda:1")


def is_permitted(call):
    try:
        call()
    except torch.AcceleratorError as error:
        assert NOT_WHILE_CAPTURING in str(error)
        return False
    return True


@pytest.mark.parametrize(
    ("mode", "answers"),
    [
        ("global", [False, False]),
        ("thread_local", [False, True]),
        ("relaxed", [True] * 2),
    ],
)
def test_who_may_ask_an_event_or_take_a_segment_depends_on_the_mode(mode, answers):
    """The second is the example in the documentation of `torch.cuda.graph`."""
    event = torch.cuda.Event()
    event.record()
    for call in (event.query, new_segment):
        with capturing(mode):
            got = [is_permitted(call), in_thread(lambda call=call: is_permitted(call))]
        assert got == answers


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_nobody_may_wait_for_what_is_captured(mode):
    """Prohibited and Unhandled Operations in the CUDA programming guide."""
    with capturing(mode):
        stream = torch.cuda.current_stream()
        for call in (torch.cuda.synchronize, stream.synchronize):
            assert not is_permitted(call)
            assert not in_thread(lambda call=call: is_permitted(call))
        assert in_thread(lambda: is_permitted(lambda: torch.cuda.synchronize(1)))


def test_two_captures_do_not_merge():
    x = torch.ones(2, device="cuda")
    with capturing():
        x + 1
        event = torch.cuda.current_stream().record_event()
        with capturing(), pytest.raises(torch.AcceleratorError, match="a merge of"):
            torch.cuda.current_stream().wait_event(event)


def test_a_copy_from_another_gpu_spoils_a_capture():
    """As an event of an uncaptured stream does: `copy_device_to_device` in Copy.cu."""
    near, far = (torch.ones(2, device=gpu) for gpu in ("cuda:0", "cuda:1"))
    for move in (lambda: far.copy_(near), lambda: near.to("cuda:1")):
        with capturing() as graph:
            with pytest.raises(torch.AcceleratorError, match="uncaptured work in"):
                move()
            with pytest.raises(torch.AcceleratorError, match=INVALIDATED):
                graph.capture_end()


def test_a_copy_of_pageable_memory_leaves_a_capture_sound():
    """Checked on the host: https://github.com/pytorch/pytorch/pull/172156."""
    x = torch.ones(2, device="cuda")
    host = torch.full((2,), 3.0)
    moves = (
        lambda: x.copy_(host, non_blocking=True),
        x.cpu,
        x.tolist,
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: x[[0, 1]],
    )
    pinned = host.pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for move in moves:
            with pytest.raises(RuntimeError, match="unless the CPU tensor is pinned"):
                move()
        x.copy_(pinned, non_blocking=True)
    graph.replay()
    assert x.tolist() == [3, 3]


def test_a_capture_ends_in_its_own_thread():
    with capturing() as graph:
        stream = torch.cuda.current_stream()

        def end():
            with torch.cuda.stream(stream):
                return raised(graph.capture_end, torch.AcceleratorError)

        words = (
            "attempt to terminate a thread-local capture sequence from another thread"
        )
        assert words in in_thread(end)


def test_a_kept_graph_is_instantiated_by_its_replay():
    x = torch.ones(2, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y = x + 1
    # As aten/src/ATen/cuda/CUDAGraph.cpp says it.
    not_yet = "until instantiate() has been called"
    assert raised(graph.raw_cuda_graph_exec).endswith(not_yet)
    graph.replay()
    assert y.tolist() == [2, 2]
    refusal = raised(graph.raw_cuda_graph_exec, NotImplementedError)
    assert "no objects of CUDA" in refusal


@pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="torch.accelerator.Graph is of 2.12"
)
def test_a_graph_of_any_accelerator_is_captured():
    x = torch.ones(2, device="cuda")
    graph = torch.accelerator.Graph()
    assert isinstance(graph, torch.accelerator.Graph)
    with torch.Stream(), graph:
        y = x + 1
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6, 6]

    second = torch.accelerator.Graph(pool=graph.pool())
    with torch.Stream(), second:
        z = y * 2
    second.replay()
    assert z.tolist() == [12, 12]
    unknown = torch.accelerator.Graph(capture_error_mode="strict")
    assert "Expected `default`, `global`" in raised(unknown.capture_begin)


def test_asking_whether_a_stream_is_captured_uses_no_gpu():
    cudasim.disable()
    with cudasim.simulate(gpus=1):
        assert not torch.cuda.is_current_stream_capturing()
        assert not torch.cuda.is_initialized()
