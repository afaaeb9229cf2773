"""CUDA graphs: whose the memory is, and how long; `fidelity/programs/graphs.py` asks the rest."""

import copy
import gc

import pytest
import torch
from torch import nn

import cudasim
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


def test_a_graph_warns_of_an_input_that_is_gone():
    inputs = [torch.ones(2, device="cuda")]
    graph, _ = captured(lambda: inputs[0] + 1)
    inputs.clear()
    with pytest.warns(UserWarning, match="of which the program holds nothing"):
        graph.replay()


def test_a_graph_may_outlive_its_simulation():
    x = torch.ones(2, device="cuda")
    graph, _ = captured(lambda: x + 1)
    cudasim.disable()
    del graph
    gc.collect()
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
