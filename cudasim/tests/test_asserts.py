"""What stops a kernel stops the GPU: an index beyond the end, as CUDA finds it."""

import pytest
import torch
from calls import raised
from torch import nn
from torch.nn import functional as F

import cudasim

GPU = "cuda:0"
SAID = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in "


def numbers(*values, dtype=torch.int64):
    return torch.tensor(values, device=GPU, dtype=dtype)


STOPPING = {
    "index": lambda x: x[numbers(3)],
    "index before the beginning": lambda x: x[numbers(-4)],
    "index from the CPU": lambda x: x[torch.tensor([25])],
    "index_put": lambda x: x.index_put_((numbers(3),), torch.ones(1, device=GPU)),
    "assignment": lambda x: x.__setitem__(numbers(3), 1.0),
    "index_select": lambda x: x.index_select(0, numbers(3)),
    "index_add": lambda x: x.index_add(0, numbers(3), x[:1]),
    "index_copy": lambda x: x.index_copy(0, numbers(3), x[:1]),
    "index_fill": lambda x: x.index_fill(0, numbers(3), 1.0),
    "gather": lambda x: x.gather(0, numbers(3)),
    "scatter": lambda x: x.scatter(0, numbers(3), 1.0),
    "scatter_add": lambda x: x.scatter_add(0, numbers(3), x[:1]),
    "scatter_reduce": lambda x: x.scatter_reduce(0, numbers(3), x[:1], "sum"),
    "take": lambda x: x.take(numbers(3)),
    "put": lambda x: x.put(numbers(3), x[:1]),
    "embedding": lambda x: F.embedding(numbers(3), x.view(3, 1)),
    "embedding_bag": lambda x: F.embedding_bag(numbers(3), x.view(3, 1), numbers(0)),
    "cross_entropy": lambda x: F.cross_entropy(x.view(1, 3), numbers(3)),
    "classes of pixels": lambda x: F.cross_entropy(
        x.view(1, 3, 1, 1), numbers(3).view(1, 1, 1)
    ),
    "one_hot": lambda x: F.one_hot(numbers(3), 3),
    "one_hot below zero": lambda x: F.one_hot(numbers(-1, 1)),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x + 1, x),
    "bernoulli": lambda x: torch.bernoulli(x + 1),
    "multinomial": lambda x: torch.multinomial(x - 1, 2, replacement=True),
    "max_unpool2d": lambda x: F.max_unpool2d(
        x.view(1, 1, 3), numbers(99, 0, 0).view(1, 1, 3), 1
    ),
    "_assert_async": lambda x: torch._assert_async(x[0]),
}


@pytest.fixture
def x(two_gpus):
    return torch.tensor([0.0, 1.0, 2.0], device=GPU)


def assertion(call):
    with pytest.raises(torch.AcceleratorError) as error:
        call()
    assert str(error.value).startswith(SAID)
    return error.value


@pytest.mark.parametrize("call", STOPPING.values(), ids=STOPPING)
def test_what_the_cpu_refuses_stops_the_kernel(x, call):
    error = assertion(lambda: call(x))
    # The CPU's error says more.
    assert isinstance(error.__cause__, IndexError | RuntimeError)
    assertion(x.sum)


def test_only_the_gpu_that_failed_works_no_more(x):
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    elsewhere = torch.ones(2, device="cuda:1")
    assertion(lambda: x[numbers(3)])
    for call in (
        x.cpu,
        x.tolist,
        x.__repr__,
        lambda: x + 1,
        lambda: x.copy_(torch.ones(3)),
        lambda: torch.ones(3, device=GPU),
        torch.ones(3).cuda,
        lambda: elsewhere.to(GPU),
        torch.cuda.synchronize,
        torch.accelerator.synchronize,
        stream.synchronize,
        nn.Linear(2, 2).cuda,
        lambda: torch.cuda.synchronize(GPU),
    ):
        assertion(call)
    assert x.device == torch.device(GPU)
    assert x.shape == (3,)
    assert torch.cuda.device_count() == 2
    assert torch.cuda.memory_allocated() >= 512

    event.record(torch.cuda.Stream(1))
    torch.cuda.synchronize("cuda:1")
    assert (elsewhere + 1).tolist() == [2, 2]
    assert torch.ones(2).sum() == 2
    assertion(lambda: elsewhere[torch.tensor([5])])
    assertion(elsewhere.sum)


def test_the_next_simulation_has_a_context_of_its_own():
    for _ in range(2):
        with cudasim.simulate(gpus=1):
            x = torch.ones(3, device=GPU)
            assertion(lambda x=x: x[numbers(3)])
    assert torch.ones(3)[torch.tensor([0])] == 1


def test_what_the_host_looks_at_is_refused_by_the_host(x):
    for call, kind in (
        (lambda: x[3], IndexError),
        (lambda: x.select(0, 3), IndexError),
        (lambda: x.index_select(1, numbers(0)), IndexError),
        (lambda: x.gather(0, numbers(0).view(1, 1)), RuntimeError),
        (lambda: F.one_hot(numbers(1), 0), RuntimeError),
    ):
        raised(call, kind)
    assert x.sum() == 3
    assert F.one_hot(numbers(0, 2)).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(numbers(0, 2), 4).device == torch.device(GPU)


@pytest.mark.parametrize(("kind", "device"), [("cuda", "cpu"), ("mps", "mps")])
def test_the_cpu_and_mps_have_the_words_of_the_cpu(kind, device):
    with cudasim.simulate(device_type=kind):
        x = torch.ones(3, device=device)
        index = torch.tensor([3], device=device)
        words = raised(lambda: x[index], IndexError)
        assert words == "index 3 is out of bounds for dimension 0 with size 3"
        words = raised(lambda: F.cross_entropy(x[None], index), IndexError)
        assert "Target 3 is" in words
