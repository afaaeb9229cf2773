"""What stops a kernel stops the GPU: an index beyond the end, as CUDA finds it."""

import io

import pytest
import torch
from calls import raised
from torch import nn
from torch.nn import functional as F

import cudasim

GPU = "cuda:0"
MESSAGE = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in "


@pytest.fixture
def x(two_gpus):
    """Three numbers on the first GPU."""
    return torch.tensor([0.0, 1.0, 2.0], device=GPU)


@pytest.fixture
def beyond(two_gpus):
    """An index on the GPU for which `x` has no element."""
    return on_gpu(3)


def on_gpu(*indices):
    return torch.tensor(indices, device=GPU)


def assert_stops(call):
    """Assert that `call` raises CUDA's error of a failed kernel, and return the error."""
    with pytest.raises(torch.AcceleratorError) as caught:
        call()
    assert str(caught.value).startswith(MESSAGE)
    return caught.value


READING = {
    "index": lambda x, beyond: x[beyond],
    "index before the beginning": lambda x, beyond: x[on_gpu(-4)],
    "index from the CPU": lambda x, beyond: x[torch.tensor([25])],
    "index_select": lambda x, beyond: x.index_select(0, beyond),
    "gather": lambda x, beyond: x.gather(0, beyond),
    "take": lambda x, beyond: x.take(beyond),
}
WRITING = {
    "assignment": lambda x, beyond: x.__setitem__(beyond, 1.0),
    "index_put": lambda x, beyond: x.index_put_((beyond,), x[:1] + 1),
    "index_add": lambda x, beyond: x.index_add(0, beyond, x[:1]),
    "index_copy": lambda x, beyond: x.index_copy(0, beyond, x[:1]),
    "index_fill": lambda x, beyond: x.index_fill(0, beyond, 1.0),
    "scatter": lambda x, beyond: x.scatter(0, beyond, 1.0),
    "scatter_add": lambda x, beyond: x.scatter_add(0, beyond, x[:1]),
    "scatter_reduce": lambda x, beyond: x.scatter_reduce(0, beyond, x[:1], "sum"),
    "index_reduce": lambda x, beyond: x.index_reduce(0, beyond, x[:1], "prod"),
    "put": lambda x, beyond: x.put(beyond, x[:1]),
}
PROBABILITIES = {
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x + 1, x),
    "bernoulli": lambda x: torch.bernoulli(x + 1),
    "multinomial": lambda x: torch.multinomial(x - 1, 2, replacement=True),
    "_assert_async": lambda x: torch._assert_async(x[0]),
}


def assert_stops_for_good(call, x):
    """Assert that a kernel of `call` stops the GPU, for what the CPU's kernel refuses."""
    error = assert_stops(call)
    # The CPU's error says more.
    assert isinstance(error.__cause__, IndexError | RuntimeError)
    assert_stops(x.sum)


@pytest.mark.parametrize("call", READING.values(), ids=READING)
def test_an_index_that_reads_beyond_the_end_stops_the_gpu(x, beyond, call):
    assert_stops_for_good(lambda: call(x, beyond), x)


@pytest.mark.parametrize("call", WRITING.values(), ids=WRITING)
def test_an_index_that_writes_beyond_the_end_stops_the_gpu(x, beyond, call):
    assert_stops_for_good(lambda: call(x, beyond), x)


@pytest.mark.parametrize("call", PROBABILITIES.values(), ids=PROBABILITIES)
def test_what_is_no_probability_stops_the_gpu(x, call):
    assert_stops_for_good(lambda: call(x), x)


def test_a_word_beyond_the_vocabulary_stops_the_gpu(x, beyond):
    weight = x.view(3, 1)
    assert_stops_for_good(lambda: F.embedding(beyond, weight), x)


def test_a_word_of_a_bag_beyond_the_vocabulary_stops_the_gpu(x, beyond):
    weight = x.view(3, 1)
    offsets = on_gpu(0)
    assert_stops_for_good(lambda: F.embedding_bag(beyond, weight, offsets), x)


def test_a_class_beyond_the_last_stops_the_gpu(x, beyond):
    scores = x.view(1, 3)
    assert_stops_for_good(lambda: F.cross_entropy(scores, beyond), x)


def test_a_class_of_a_pixel_beyond_the_last_stops_the_gpu(x, beyond):
    scores = x.view(1, 3, 1, 1)
    target = beyond.view(1, 1, 1)
    assert_stops_for_good(lambda: F.cross_entropy(scores, target), x)


@pytest.mark.parametrize(("index", "classes"), [(3, 3), (-1, -1)])
def test_a_one_hot_vector_of_no_class_stops_the_gpu(x, index, classes):
    indices = on_gpu(index, 1)
    assert_stops_for_good(lambda: F.one_hot(indices, classes), x)


def test_unpooling_to_no_place_stops_the_gpu(x):
    pooled = x.view(1, 1, 3)
    places = on_gpu(99, 0, 0).view(1, 1, 3)
    assert_stops_for_good(lambda: F.max_unpool2d(pooled, places, 1), x)


SIZES = {
    "masked_scatter": lambda x: x.masked_scatter(x >= 0, x[:1]),
    "repeat_interleave": lambda x: x.repeat_interleave(on_gpu(1, 1, 1), output_size=5),
    "segment_reduce": lambda x: torch.segment_reduce(
        x, "sum", lengths=on_gpu(4, -1), unsafe=True
    ),
    "embedding_bag": lambda x: F.embedding_bag(on_gpu(0), x.view(3, 1), on_gpu(0, 7)),
    "a bag that ends before it begins": lambda x: F.embedding_bag(
        on_gpu(0, 1, 2), x.view(3, 1), on_gpu(0, 2, 1)
    ),
    "the largest of such a bag": lambda x: F.embedding_bag(
        on_gpu(0, 1, 2), x.view(3, 1), on_gpu(0, 2, 1), mode="max"
    ),
    "sparse_csr_tensor": lambda x: torch.sparse_csr_tensor(
        on_gpu(0, 1), on_gpu(7), x[:1], (1, 1), check_invariants=True
    ),
}


@pytest.mark.parametrize("call", SIZES.values(), ids=SIZES)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sizes_that_only_a_kernel_compares_stop_the_gpu(x, call):
    """See CUDA_KERNEL_ASSERT in IndexKernel.cu, Repeat.cu, SegmentReduce.cu, EmbeddingBag.cu
    and ValidateCompressedIndicesCommon.h.
    """
    assert_stops_for_good(lambda: call(x), x)


def test_negative_repeats_stop_the_gpu_only_if_the_size_is_given(x):
    """Else the host adds them up (Repeat.h)."""
    repeats = on_gpu(1, -1, 1)
    words = raised(lambda: x.repeat_interleave(repeats), RuntimeError)
    assert words == "repeats can not be negative"
    assert_stops(lambda: x.repeat_interleave(repeats, output_size=1))


def test_the_first_bag_begins_with_the_first_word(x):
    bags = F.embedding_bag(on_gpu(0, 1, 2), x.view(3, 1), on_gpu(1, 2), mode="sum")
    assert bags.tolist() == [[1], [2]]


def test_what_the_message_advises_is_advised_once(x, beyond, monkeypatch):
    """`get_cuda_check_suffix` of c10/cuda/CUDAMiscFunctions.cpp"""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    words = raised(lambda: x[beyond], torch.AcceleratorError)
    assert "device-side assert triggered" in words
    assert "CUDA_LAUNCH_BLOCKING" not in words


def test_the_gpu_that_failed_works_no_more(x, beyond):
    stream = torch.cuda.Stream()
    elsewhere = torch.ones(3, device="cuda:1")
    on_host = torch.ones(3)
    assert_stops(lambda: x[beyond])

    assert_stops(x.cpu)
    assert_stops(x.tolist)
    assert_stops(x.__repr__)
    assert_stops(lambda: x + 1)
    assert_stops(lambda: x.copy_(on_host))
    assert_stops(on_host.cuda)
    assert_stops(lambda: on_host.copy_(x))
    assert_stops(lambda: elsewhere.to(GPU))
    assert_stops(lambda: torch.ones(3, device=GPU))
    assert_stops(nn.Linear(2, 2).cuda)
    assert_stops(stream.synchronize)
    assert_stops(torch.cuda.synchronize)
    assert_stops(lambda: torch.cuda.synchronize(GPU))
    assert_stops(torch.accelerator.synchronize)

    # What the host knows can still be asked.
    assert x.device == torch.device(GPU)
    assert x.shape == (3,)
    assert torch.cuda.device_count() == 2
    assert torch.cuda.memory_allocated() >= 512


def test_calls_of_cuda_that_are_no_operations_fail_too(x, beyond):
    stream = torch.cuda.Stream()
    event = torch.cuda.Event()
    event.record()
    model = nn.Linear(3, 3).cuda()
    model(x).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert_stops(lambda: x[beyond])

    assert_stops(torch.cuda.empty_cache)
    assert_stops(torch.cuda.mem_get_info)
    assert_stops(stream.query)
    assert_stops(event.query)
    assert_stops(lambda: event.record(stream))
    assert_stops(lambda: stream.wait_stream(torch.cuda.current_stream()))
    assert_stops(torch.ones(3).pin_memory)
    assert_stops(optimizer.step)
    assert_stops(lambda: torch.save(x, io.BytesIO()))
    with torch.cuda.stream(stream):
        assert_stops(lambda: torch.ones(3, device=GPU))


def test_the_other_gpu_and_the_cpu_still_work(x, beyond):
    event = torch.cuda.Event()
    elsewhere = torch.ones(2, device="cuda:1")
    assert_stops(lambda: x[beyond])

    event.record(torch.cuda.Stream(1))
    torch.cuda.synchronize("cuda:1")
    assert (elsewhere + 1).tolist() == [2, 2]
    assert torch.ones(2).sum() == 2

    # Until it fails, too.
    assert_stops(lambda: elsewhere[torch.tensor([5])])
    assert_stops(elsewhere.sum)


def test_the_next_simulation_has_a_context_of_its_own():
    index = torch.tensor([3])
    for _ in range(2):
        with cudasim.simulate(gpus=1):
            x = torch.ones(3, device=GPU)
            assert_stops(lambda x=x: x[index])
    assert torch.ones(3)[torch.tensor([0])] == 1


def test_what_the_host_checks_is_refused_by_the_host(x):
    zero = on_gpu(0)
    raised(lambda: x[3], IndexError)
    raised(lambda: x.select(0, 3), IndexError)
    raised(lambda: x.index_select(1, zero), IndexError)
    raised(lambda: x.gather(0, zero.view(1, 1)), RuntimeError)
    raised(lambda: F.one_hot(zero + 1, 0), RuntimeError)

    # The GPU goes on.
    assert x.sum() == 3
    indices = on_gpu(0, 2)
    assert F.one_hot(indices).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(indices, 4).device == torch.device(GPU)


@pytest.mark.parametrize(("kind", "device"), [("cuda", "cpu"), ("mps", "mps")])
def test_the_cpu_and_mps_have_the_words_of_the_cpu(kind, device):
    """MPS reports them from a kernel (native/mps/kernels/Indexing.metal)."""
    error_of_index = torch.AcceleratorError if kind == "mps" else IndexError
    with cudasim.simulate(device_type=kind):
        x = torch.ones(3, device=device)
        index = torch.tensor([3], device=device)
        words = raised(lambda: x[index], error_of_index)
        assert words == "index 3 is out of bounds for dimension 0 with size 3"
        words = raised(lambda: F.cross_entropy(x[None], index), IndexError)
        assert "Target 3 is" in words


def test_rows_that_mps_does_not_find_are_zeros():
    """As reported in pytorch/pytorch#144824 and #123119."""
    with cudasim.simulate(device_type="mps"):
        table = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="mps")
        rows = torch.tensor([1, 2], device="mps")
        assert F.embedding(rows, table).tolist() == [[3, 4], [0, 0]]
        assert table.index_select(1, rows).tolist() == [[2, 0], [4, 0]]
